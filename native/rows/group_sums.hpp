// The weighted sums of the rows of a group.
#pragma once

#include "rows/column_sums.hpp"
#include "rows/sparse_rows.hpp"
#include "rows/sweeps.hpp"

namespace mercer::MERCER_ISA {

constexpr int64_t kMostTileRows = 128;    // rows that are added at a time
constexpr int64_t kTileBytes = 24 << 10;  // of these rows, so that they stay in the first cache

// The sums of a group: first those of weighted rows, then those of the weights, which belong to the constant, and then
// the Gram matrix.
struct Layout {
    int64_t n_sums, padded, gram_width;  // 0: no Gram matrix

    int64_t of_weights() const { return n_sums * padded; }
    int64_t of_gram() const { return round_up(of_weights() + n_sums, kLanes); }
    int64_t size() const { return of_gram() + gram_width * gram_width; }
};

// Adds listed rows to the sums of a group.
template <class Number>
class DenseSums {
  public:
    DenseSums(const DenseRows<Number>& rows, const WeightedSums& request, const Layout& layout, double* sums)
        : rows_(rows),
          request_(request),
          layout_(layout),
          sums_(sums),
          memory_(sizeof(double) * static_cast<std::size_t>(kMostTileRows * request.n_sums)),
          weights_(memory_.as<double>()) {}

    // Rows at a time: a tile of them stays in the first cache.
    static int64_t height(const DenseRows<Number>& rows) {
        const int64_t fit = kTileBytes / (rows.n_padded * static_cast<int64_t>(sizeof(Number)));
        return fit < 8 ? 8 : fit < kMostTileRows ? fit : kMostTileRows;
    }

    bool add(const int64_t* list, int64_t count) {
        const int64_t n_sums = request_.n_sums;
        const Number* tile[kMostTileRows];
        for (int64_t r = 0; r < count; ++r) tile[r] = rows_[list[r]];
        double* totals = sums_ + layout_.of_weights();
        if (n_sums == 1) {
            double some[4] = {};
            for (int64_t r = 0; r < count; ++r) weights_[r] = request_.weights[list[r]];
            int64_t r = 0;
            for (; r + 4 <= count; r += 4)
                for (int c = 0; c < 4; ++c) some[c] += weights_[r + c];
            for (; r < count; ++r) some[0] += weights_[r];
            totals[0] += (some[0] + some[1]) + (some[2] + some[3]);
        } else {
            for (int64_t r = 0; r < count; ++r)
                for (int64_t k = 0; k < n_sums; ++k) {
                    weights_[r * n_sums + k] = request_.weights[list[r] * n_sums + k];
                    totals[k] += weights_[r * n_sums + k];
                }
        }
        add_rows(tile, count, layout_.padded, weights_, n_sums, sums_);
        return true;
    }

    // sums are [k][j] here
    static double at(const double* sums, const Layout& layout, int64_t j, int64_t k) {
        return sums[k * layout.padded + j];
    }

  private:
    const DenseRows<Number>& rows_;
    const WeightedSums& request_;
    const Layout& layout_;
    double* sums_;
    Scratch memory_;
    double* weights_;
};

template <class Number, class Index>
class SparseSums {
  public:
    SparseSums(const SparseRows<Number, Index>& rows, const WeightedSums& request, const Layout& layout, double* sums)
        : rows_(rows), request_(request), layout_(layout), sums_(sums) {}

    static int64_t height(const SparseRows<Number, Index>&) { return kMostTileRows; }

    bool add(const int64_t* list, int64_t count) {
        bool in_range = true;
        for (int64_t r = 0; r < count; ++r) in_range = add(list[r]) && in_range;
        return in_range;
    }

    // sums are [j][k] here
    static double at(const double* sums, const Layout& layout, int64_t j, int64_t k) {
        return sums[j * layout.n_sums + k];
    }

  private:
    bool add(int64_t i) {
        const int64_t n_sums = request_.n_sums;
        const auto row = rows_[i];
        const double* __restrict weights = request_.weights + i * n_sums;
        if (n_sums == 1)
            for (int64_t e = 0; e < row.count; ++e)
                sums_[row.columns[e]] += weights[0] * static_cast<double>(row.values[e]);
        else
            for (int64_t e = 0; e < row.count; ++e) {
                double* __restrict to = sums_ + static_cast<int64_t>(row.columns[e]) * n_sums;
                const auto x = static_cast<double>(row.values[e]);
                int64_t k = 0;
                for (; k + 4 <= n_sums; k += 4)
#pragma GCC unroll 4
                    for (int c = 0; c < 4; ++c) to[k + c] += weights[k + c] * x;
                for (; k < n_sums; ++k) to[k] += weights[k] * x;
            }
        double* totals = sums_ + layout_.of_weights();
        for (int64_t k = 0; k < n_sums; ++k) totals[k] += weights[k];
        return row.in_range;
    }

    const SparseRows<Number, Index>& rows_;
    const WeightedSums& request_;
    const Layout& layout_;
    double* sums_;
};

template <class Number>
DenseSums<Number> sums_for(const DenseRows<Number>&);
template <class Number, class Index>
SparseSums<Number, Index> sums_for(const SparseRows<Number, Index>&);
template <class Rows>
using SumsOf = decltype(sums_for(static_cast<const Rows&>(*static_cast<const Rows*>(nullptr))));

}  // namespace mercer::MERCER_ISA

// The Gram matrix of the rows of a group: its upper triangle.
#pragma once

#include "rows/gram.hpp"
#include "rows/sweeps.hpp"

namespace mercer::MERCER_ISA {

// Rows that are packed for a Gram matrix at a time, at most, and their bytes: they stay in the first cache if q is
// small.
constexpr int64_t kPackedRows = 128, kLeastPackedRows = 64, kPackedBytes = 32 << 10;

// Largest width of a Gram matrix of which each group has its own; threads share the blocks of wider ones.
constexpr int64_t kMostOwnWidth = 256;

// Adds listed rows to the Gram matrix of a group; they wait until enough with weights of the same sign can be packed.
class GramSums {
  public:
    GramSums(const LinearTable& table, const double* scales, double* gram)
        : packed_(table, scales, packed_rows(table.width())), gram_(gram) {}

    // Rows that wait must have been flushed before other weights are given.
    template <class Rows>
    bool add(const Rows& rows, const int64_t* list, int64_t count, RowWeights weights) {
        bool in_range = true;
        weights_ = weights;
        for (int64_t r = 0; r < count; ++r) {
            const double weight = weights[list[r]];
            const int sign = weight < 0.0;
            waiting_[sign][n_waiting_[sign]] = list[r];
            n_waiting_[sign] += weight != 0.0;
            if (n_waiting_[sign] == packed_.height) in_range = add_waiting(rows, sign) && in_range;
        }
        return in_range;
    }

    template <class Rows>
    bool flush(const Rows& rows) {
        const bool in_range = add_waiting(rows, 0);
        return add_waiting(rows, 1) && in_range;
    }

  private:
    static int64_t packed_rows(int64_t q) {
        const int64_t fit = kPackedBytes / (round_up(q, kPanel) * static_cast<int64_t>(sizeof(double)));
        return fit < kLeastPackedRows ? kPackedRows : fit < kPackedRows ? fit : kPackedRows;
    }

    template <class Rows>
    bool add_waiting(const Rows& rows, int sign) {
        const RowList list{waiting_[sign], n_waiting_[sign], weights_, sign ? -1.0 : 1.0};
        const bool in_range = packed_.pack(rows, list, 0, list.count);
        for (int64_t panel = 0; panel < packed_.width / kPanel; ++panel) packed_.add_panel(panel, list, gram_);
        n_waiting_[sign] = 0;
        return in_range;
    }

    PackedRows packed_;
    double* gram_;
    RowWeights weights_{nullptr, 0};
    int64_t waiting_[2][kPackedRows];  // of positive and of negative weights
    int64_t n_waiting_[2] = {};
};

// The same for sparse rows of so few entries that adding their products one by one is faster.
class OuterSums {
  public:
    OuterSums(const WeightedSums& request, int64_t width, double* gram)
        : request_(request), width_(width), gram_(gram) {}

    template <class Number, class Index>
    bool add(const SparseRows<Number, Index>& rows, const int64_t* list, int64_t count, RowWeights weights) {
        bool in_range = true;
        for (int64_t r = 0; r < count; ++r) {
            const double weight = weights[list[r]];
            if (weight == 0.0) continue;
            const auto row = rows[list[r]];
            in_range = in_range && row.in_range;
            add_row(row, weight);
        }
        return in_range;
    }

    template <class Rows>
    bool flush(const Rows&) {
        return true;
    }

    // Whether rows of `mean` entries are fast enough.
    static bool is_faster(double mean, double q) { return mean < q / 8.0; }

  private:
    template <class Number, class Index>
    MERCER_INLINE void add_row(const SparseRow<Number, Index>& row, double weight) {
        const LinearTable& table = request_.table;
        const double* scales = request_.scales;
        const int64_t p = table.n_columns;
        const double constant = table.width() > p ? table.constant * scales[p] : 0.0;
        for (int64_t e = 0; e < row.count; ++e) {
            const auto column = static_cast<int64_t>(row.columns[e]);
            const double x = weight * static_cast<double>(row.values[e]) * scales[column];
            for (int64_t f = e; f < row.count; ++f) {
                const auto other = static_cast<int64_t>(row.columns[f]);
                const int64_t low = column < other ? column : other, high = column < other ? other : column;
                gram_[low * width_ + high] += x * (static_cast<double>(row.values[f]) * scales[other]);
            }
            if (constant != 0.0) gram_[column * width_ + p] += x * constant;
        }
        if (constant != 0.0) gram_[p * width_ + p] += weight * constant * constant;
    }

    const WeightedSums& request_;
    const int64_t width_;
    double* gram_;
};

}  // namespace mercer::MERCER_ISA

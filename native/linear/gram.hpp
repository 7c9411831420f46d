// Sums of w x x' over rows x, as a product of packed rows: blocks of the upper triangle are summed in registers.
#pragma once

#include "linear/dense_rows.hpp"
#include "linear/sparse_rows.hpp"

namespace mercer::MERCER_ISA {

constexpr int kPanel = kLanes > 4 ? kLanes : 4;  // columns of a panel: rows of a block of the matrix
constexpr int kPanelVectors = kPanel / kLanes;
#if defined(__AVX2__)
constexpr int kMostPanels = 3;  // panels side by side in a block of the matrix: 24 or 12 sums in registers
#else
constexpr int kMostPanels = 1;
#endif

// Up to `height` rows of q numbers, twice: scaled, and scaled and weighted. A panel of kPanel columns is contiguous,
// row after row; columns beyond q are 0.
class PackedRows {
  public:
    PackedRows(int64_t n_columns, double constant, const double* scales, int64_t height)
        : n_columns_(n_columns),
          width(round_up(n_columns + (constant != 0.0 ? 1 : 0), kPanel)),
          height(height),
          memory_(sizeof(double) * static_cast<std::size_t>((2 * height + 1) * width)),
          plain_(memory_.as<double>()),
          weighted_(plain_ + height * width),
          scales_(weighted_ + height * width),
          constant_(constant != 0.0 ? constant * scales[n_columns] : 0.0) {
        for (int64_t j = 0; j < width; ++j) scales_[j] = j < n_columns ? scales[j] : 0.0;
    }

    template <class Number>
    MERCER_INLINE void put(int64_t at, const DenseRows<Number>& rows, int64_t i, double weight) {
        const Number* row = rows[i];
        const int64_t n_whole = rows.n_whole();
        int64_t j = 0;
        for (; j < n_whole; j += kLanes) write(at, j, load_numbers(row + j), weight);
        if (j < n_columns_) write(at, j, rows.tail(row), weight), j += kLanes;
        for (; j < width; j += kLanes) write(at, j, Vec{}, weight);
        put_constant(at, weight);
    }

    // Returns whether the row is within the table.
    template <class Number, class Index>
    MERCER_INLINE bool put(int64_t at, const SparseRows<Number, Index>& rows, int64_t i, double weight) {
        const auto row = rows[i];
        for (int64_t j = 0; j < width; j += kLanes) write(at, j, Vec{}, weight);
        for (int64_t e = 0; e < row.count; ++e) {
            const auto j = static_cast<int64_t>(row.columns[e]);
            const double x = static_cast<double>(row.values[e]) * scales_[j];
            plain_[place(at, j)] = x, weighted_[place(at, j)] = x * weight;
        }
        put_constant(at, weight);
        return row.in_range;
    }

    // Adds the blocks of a panel of the matrix from its diagonal on, for the first `count` rows. The matrix has `width`
    // columns.
    void add_panel(int64_t panel, int64_t count, double* gram) const {
        const int64_t n_panels = width / kPanel;
        const double* left = weighted_ + panel * kPanel * height;
        double* out = gram + panel * kPanel * width;
        int64_t right = panel;
        for (; right + kMostPanels <= n_panels; right += kMostPanels) add_block<kMostPanels>(left, right, count, out);
        if (kMostPanels > 2 && right + 2 <= n_panels) add_block<2>(left, right, count, out), right += 2;
        for (; right < n_panels; ++right) add_block<1>(left, right, count, out);
    }

  private:
    const int64_t n_columns_;

  public:
    const int64_t width, height;

  private:
    int64_t place(int64_t at, int64_t j) const { return (j / kPanel) * kPanel * height + at * kPanel + j % kPanel; }

    MERCER_INLINE void write(int64_t at, int64_t j, Vec x, double weight) {
        const Vec scaled = x * load(scales_ + j);
        store(plain_ + place(at, j), scaled), store(weighted_ + place(at, j), scaled * weight);
    }

    MERCER_INLINE void put_constant(int64_t at, double weight) {
        if (constant_ == 0.0) return;
        const int64_t to = place(at, n_columns_);
        plain_[to] = constant_, weighted_[to] = constant_ * weight;
    }

    template <int kPanels>
    void add_block(const double* left, int64_t panel, int64_t count, double* out) const {
        constexpr int kVectors = kPanels * kPanelVectors;
        const double* right = plain_ + panel * kPanel * height;
        Vec sums[kPanel][kVectors];
#pragma GCC unroll 8
        for (int r = 0; r < kPanel; ++r)
#pragma GCC unroll 3
            for (int v = 0; v < kVectors; ++v) sums[r][v] = Vec{};
        for (int64_t i = 0; i < count; ++i) {
            Vec x[kVectors];
#pragma GCC unroll 3
            for (int v = 0; v < kVectors; ++v)
                x[v] = load(right + v / kPanelVectors * kPanel * height + i * kPanel + v % kPanelVectors * kLanes);
#pragma GCC unroll 8
            for (int r = 0; r < kPanel; ++r) {
                const Vec weighted = broadcast(left[i * kPanel + r]);
#pragma GCC unroll 3
                for (int v = 0; v < kVectors; ++v) sums[r][v] = multiply_add(weighted, x[v], sums[r][v]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < kPanel; ++r)
#pragma GCC unroll 3
            for (int v = 0; v < kVectors; ++v) {
                double* to = out + r * width + panel * kPanel + v * kLanes;
                store(to, load(to) + sums[r][v]);
            }
    }

    Scratch memory_;
    double *plain_, *weighted_, *scales_;
    const double constant_;
};

}  // namespace mercer::MERCER_ISA

// Sums of w x x' over rows x, as a product of packed rows: blocks of the upper triangle are summed in registers.
#pragma once

#include "rows/dense_rows.hpp"
#include "rows/sparse_rows.hpp"

namespace mercer::MERCER_ISA {

constexpr int kPanel = kLanes > 4 ? kLanes : 4;  // columns of a panel: rows of a block of the matrix
constexpr int kPanelVectors = kPanel / kLanes;
#if defined(__AVX2__)
constexpr int kMostPanels = 3;  // panels side by side in a block of the matrix: 24 or 12 sums in registers
#else
constexpr int kMostPanels = 1;
#endif

constexpr int64_t kMostPackedRows = 256;

// The weights of the rows of a table from `first` on.
struct RowWeights {
    const double* values;
    int64_t first;

    double operator[](int64_t i) const { return values[i - first]; }
};

// Listed rows, whose weights have the same sign.
struct RowList {
    const int64_t* rows;
    int64_t count;
    RowWeights weights;
    double sign;  // of the weights
};

// Up to `height` rows of q numbers, scaled, and multiplied by the square root of |weight|. A panel of kPanel columns is
// contiguous, row after row; columns beyond q are 0.
class PackedRows {
  public:
    PackedRows(const LinearTable& table, const double* scales, int64_t height)
        : width(round_up(table.width(), kPanel)),
          height(height),
          n_columns_(table.n_columns),
          memory_(sizeof(double) * static_cast<std::size_t>((height + 2) * width + height)),
          packed_(memory_.as<double>()),
          scales_(packed_ + height * width),
          added_(scales_ + width),
          roots_(added_ + width) {
        for (int64_t j = 0; j < width; ++j) {
            scales_[j] = j < n_columns_ ? scales[j] : 0.0;
            added_[j] = j == n_columns_ && table.width() > n_columns_ ? table.constant * scales[j] : 0.0;
        }
    }

    // Packs the rows from `begin` to `end` of a list, to their places in the list. Returns whether they are within the
    // table.
    template <class Number>
    bool pack(const DenseRows<Number>& rows, const RowList& list, int64_t begin, int64_t end) {
        find_roots(list, begin, end);
        const Number* pointers[kMostPackedRows];
        for (int64_t at = begin; at < end; ++at) pointers[at - begin] = rows[list.rows[at]];
        const Number* const* first = pointers;
        const int64_t n_whole = rows.n_whole();
        int64_t j = 0;
        for (; j < n_whole; j += kLanes)
            write(begin, end, j, [first, j, scale = load(scales_ + j)](int64_t r) MERCER_LAMBDA_INLINE {
                return load_numbers(first[r] + j) * scale;
            });
        if (j < n_columns_) {
            write(begin, end, j,
                  [first, j, mask = rows.tail_mask(), scale = load(scales_ + j), added = load(added_ + j)](int64_t r)
                      MERCER_LAMBDA_INLINE { return only(load_numbers(first[r] + j), mask) * scale + added; });
            j += kLanes;
        }
        write_added(begin, end, j);
        return true;
    }

    template <class Number, class Index>
    bool pack(const SparseRows<Number, Index>& rows, const RowList& list, int64_t begin, int64_t end) {
        find_roots(list, begin, end);
        write_added(begin, end, 0);
        bool in_range = true;
        for (int64_t at = begin; at < end; ++at) {
            const auto row = rows[list.rows[at]];
            in_range = in_range && row.in_range;
            for (int64_t e = 0; e < row.count; ++e) {
                const auto j = static_cast<int64_t>(row.columns[e]);
                packed_[place(at, j)] = static_cast<double>(row.values[e]) * scales_[j] * roots_[at];
            }
        }
        return in_range;
    }

    // Adds the packed rows of a list to the blocks of a panel of the matrix, from its diagonal on. The matrix has
    // `width` columns.
    void add_panel(int64_t panel, const RowList& list, double* gram) const {
        const int64_t n_panels = width / kPanel;
        double* out = gram + panel * kPanel * width;
        int64_t right = panel;
        for (; right + kMostPanels <= n_panels; right += kMostPanels) add_block<kMostPanels>(panel, right, list, out);
        if (kMostPanels > 2 && right + 2 <= n_panels) add_block<2>(panel, right, list, out), right += 2;
        for (; right < n_panels; ++right) add_block<1>(panel, right, list, out);
    }

    const int64_t width, height;

  private:
    int64_t place(int64_t at, int64_t j) const { return (j / kPanel) * kPanel * height + at * kPanel + j % kPanel; }

    void find_roots(const RowList& list, int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at)
            roots_[at] = __builtin_sqrt(__builtin_fabs(list.weights[list.rows[at]]));
    }

    // Writes the columns from j on, which `read` returns for the rows from `begin` on, times the roots.
    template <class Read>
    MERCER_INLINE void write(int64_t begin, int64_t end, int64_t j, Read read) {
        double* to = packed_ + place(begin, j);
        const double* roots = roots_ + begin;
        for (int64_t r = 0; r < end - begin; ++r, to += kPanel) store(to, read(r) * broadcast_from(roots + r));
    }

    void write_added(int64_t begin, int64_t end, int64_t j) {
        for (; j < width; j += kLanes)
            write(begin, end, j, [added = load(added_ + j)](int64_t) MERCER_LAMBDA_INLINE { return added; });
    }

    template <int kPanels>
    void add_block(int64_t panel, int64_t panel_right, const RowList& list, double* out) const {
        constexpr int kVectors = kPanels * kPanelVectors;
        const double *left = packed_ + panel * kPanel * height, *right = packed_ + panel_right * kPanel * height;
        Vec sums[kPanel][kVectors];
#pragma GCC unroll 8
        for (int r = 0; r < kPanel; ++r)
#pragma GCC unroll 3
            for (int v = 0; v < kVectors; ++v) sums[r][v] = Vec{};
        for (int64_t i = 0; i < list.count; ++i) {
            Vec x[kVectors];
#pragma GCC unroll 3
            for (int v = 0; v < kVectors; ++v)
                x[v] = load(right + v / kPanelVectors * kPanel * height + i * kPanel + v % kPanelVectors * kLanes);
#pragma GCC unroll 8
            for (int r = 0; r < kPanel; ++r) {
                const Vec weighted = broadcast_from(left + i * kPanel + r);
#pragma GCC unroll 3
                for (int v = 0; v < kVectors; ++v) sums[r][v] = multiply_add(weighted, x[v], sums[r][v]);
            }
        }
        const Vec sign = broadcast(list.sign);
#pragma GCC unroll 8
        for (int r = 0; r < kPanel; ++r)
#pragma GCC unroll 3
            for (int v = 0; v < kVectors; ++v) {
                double* to = out + r * width + panel_right * kPanel + v * kLanes;
                store(to, multiply_add(sign, sums[r][v], load(to)));
            }
    }

    const int64_t n_columns_;
    Scratch memory_;
    double* packed_;
    double *scales_, *added_;  // by which columns are multiplied, and what is added to them: the constant
    double* roots_;            // of |weight|
};

}  // namespace mercer::MERCER_ISA

// Rows of a dense table, read in vectors of doubles.
#pragma once

#include "parallel/scratch.hpp"
#include "rows/numbers.hpp"

namespace mercer::MERCER_ISA {

constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// The pointers that it returns may be read in whole vectors, up to n_padded numbers. What lies behind the last column
// may be anything, unless `tail` replaces it by 0. The last rows of the table, behind which memory may end, are copied.
template <class Number>
class DenseRows {
  public:
    static constexpr bool kIsSparse = false;

    explicit DenseRows(const LinearTable& table)
        : n_rows(table.n_rows),
          n_columns(table.n_columns),
          n_padded(round_up(table.n_columns, kLanes)),
          first_(static_cast<const Number*>(table.data)),
          stride_(table.stride),
          n_direct_(direct_rows()),
          last_(sizeof(Number) * static_cast<std::size_t>((n_rows - n_direct_) * n_padded + 1)) {
        auto* to = last_.template as<Number>();
        for (int64_t i = n_direct_; i < n_rows; ++i)
            for (int64_t j = 0; j < n_padded; ++j) *to++ = j < n_columns ? first_[i * stride_ + j] : Number{0};
        for (int lane = 0; lane < kLanes; ++lane) tail_mask_[lane] = n_padded - kLanes + lane < n_columns ? -1 : 0;
    }

    const Number* operator[](int64_t i) const {
        return i < n_direct_ ? first_ + i * stride_ : last_.template as<const Number>() + (i - n_direct_) * n_padded;
    }

    // Sets rows[0 .. kCount - 1] to the rows from i on, and to the last row beyond the end.
    template <int kCount>
    MERCER_INLINE void point(int64_t i, const Number** rows) const {
        if (i + kCount <= n_direct_)
            for (int r = 0; r < kCount; ++r) rows[r] = first_ + (i + r) * stride_;
        else
            for (int r = 0; r < kCount; ++r) rows[r] = (*this)[i + r < n_rows ? i + r : n_rows - 1];
    }

    // The columns that fill whole vectors; the others are read by `tail`.
    int64_t n_whole() const { return n_columns / kLanes * kLanes; }
    MERCER_INLINE Vec tail(const Number* row) const { return only(load_numbers(row + n_whole()), tail_mask_); }
    LaneMask tail_mask() const { return tail_mask_; }

    const int64_t n_rows, n_columns, n_padded;

  private:
    int64_t direct_rows() const {
        const int64_t spare = (n_rows - 1) * stride_ + n_columns - n_padded;
        if (n_rows == 0 || spare < 0) return 0;
        return spare / stride_ + 1 < n_rows ? spare / stride_ + 1 : n_rows;
    }

    const Number* first_;
    int64_t stride_, n_direct_;
    LaneMask tail_mask_;
    Scratch last_;
};

}  // namespace mercer::MERCER_ISA

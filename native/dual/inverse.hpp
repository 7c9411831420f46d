// The inverse of a growing and shrinking principal submatrix. Variables enter in batches, at the speed of a matrix
// product. A variable leaves in O(size): its removal changes the inverse by a matrix of rank one, and pending rank-one
// matrices are added together by one matrix product.
#pragma once

#include "dual/cholesky.hpp"
#include "gram/simd.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {

class Inverse {
    static constexpr int kRows = kTileRows, kColumns = 2 * kLanes;  // a tile of registers
    static constexpr int64_t kPadding = 48;  // a multiple of the tile's rows and columns for every instruction set

  public:
    static constexpr int64_t kBatch = 64;
    // kFollows: a direction can be updated after a removal without solving again. kOnRequest: columns must be
    // requested.
    static constexpr bool kFollows = true, kOnRequest = false;

    explicit Inverse(int64_t capacity, int)
        : stride_((capacity + kPadding - 1) / kPadding * kPadding + kPadding),
          memory_(sizeof(double) *
                  static_cast<std::size_t>(stride_ * (stride_ + 4 * kBatch + 1) + 2 * kBatch * kBatch + kBatch)),
          left_(memory_.as<double>() + stride_ * stride_),
          right_(left_ + kBatch * stride_),
          packed_(right_ + kBatch * stride_),
          panel_(packed_ + kBatch * stride_),
          alive_(panel_ + kBatch * stride_),
          pivots_(alive_ + stride_),
          pivot_panel_(pivots_ + kBatch * kBatch),
          least_pivots_(pivot_panel_ + kBatch * kBatch) {}

    int64_t size() const { return size_; }
    bool follows() const { return true; }
    void clear() { size_ = pending_ = 0; }
    bool is_alive(int64_t position) const { return alive_[position] != 0.0; }
    bool must_tidy() const { return pending_ == kBatch; }

    // Input of a batch, written by the caller: the matrix values of the b-th new variable with the present variables,
    // and with all new variables.
    double* products(int64_t b) { return right_ + b * stride_; }
    double* own_products(int64_t b) { return pivots_ + b * kBatch; }

    // Appends at most kBatch variables, whose values have been written; no removal may be pending. A pivot lost to
    // rounding is replaced by `least` times the diagonal element, which acts as a small ridge for this variable.
    void append(int64_t count, double least) {
        if (count == 0) return;
        for (int64_t p = 0; p < count; ++p) least_pivots_[p] = least * own_products(p)[p];
        // The new inverse is [M + W S^-1 W', -W S^-1; -S^-1 W', S^-1]. M is the old inverse, X the matrix values of the
        // new variables with the present ones, W = M X, and S the Schur complement of the new variables.
        apply(right_, left_, count);
        for (int64_t p = 0; p < count; ++p)
            for (int64_t q = 0; q <= p; ++q)
                pivots_[q * kBatch + p] = pivots_[p * kBatch + q] -= dot(products(p), left_ + q * stride_, size_);
        invert_pivots(count);
        pack_right(pivots_, kBatch, count, count, pivot_panel_);
        pack_left(left_, count);
        for (int64_t i = 0; i < size_; i += kRows)
            for (int64_t q = 0; q < count; q += kColumns) {
                Vec tile[kRows][2];
                multiply<true>(packed_ + i * count, 0, pivot_panel_ + q * count, count, tile);
                scatter(tile, right_, i, q, count);
            }
        add_product(count);
        for (int64_t p = 0; p < count; ++p) {
            double* newcomer = row(size_ + p);
            for (int64_t i = 0; i < size_; ++i) newcomer[i] = row(i)[size_ + p] = -right_[p * stride_ + i];
            for (int64_t q = 0; q < count; ++q) newcomer[size_ + q] = pivots_[p * kBatch + q];
            alive_[size_ + p] = 1.0;
        }
        size_ += count;
    }

    // Deletes a variable: its column is 0 from now on, and `tidy` removes it. Returns the former column. Without
    // rounding, its diagonal element would be at least `least`, the reciprocal of the matrix's diagonal element.
    const double* remove(int64_t position, double least) {
        double* column = right_ + pending_ * stride_;
        copy(row(position), column, size_);
        for (int64_t k = 0; k < pending_; ++k)
            add_multiple(left_[k * stride_ + position], right_ + k * stride_, column);
        for (int64_t i = 0; i < size_; ++i) column[i] *= alive_[i];
        if (!(column[position] > least)) column[position] = least;
        const double scale = -1.0 / column[position];
        for (int64_t i = 0; i < size_; ++i) left_[pending_ * stride_ + i] = scale * column[i];
        alive_[position] = 0.0;
        ++pending_;
        return column;
    }

    // Adds the pending matrices and closes the gaps of deleted variables; calls move(from, to) for each variable that
    // moves, in order.
    template <class Move>
    void tidy(Move move) {
        if (pending_ == 0) return;
        pack_left(left_, pending_);
        add_product(pending_);
        pending_ = 0;
        int64_t n_remaining = 0;
        for (int64_t i = 0; i < size_; ++i)
            if (is_alive(i)) {
                left_[n_remaining] = static_cast<double>(i);  // no pending matrix is stored there any more
                move(i, n_remaining);
                ++n_remaining;
            }
        for (int64_t i = 0; i < n_remaining; ++i) {
            const double* from = row(static_cast<int64_t>(left_[i]));
            double* to = row(i);
            for (int64_t j = 0; j < n_remaining; ++j) to[j] = from[static_cast<int64_t>(left_[j])];
            alive_[i] = 1.0;
        }
        size_ = n_remaining;
    }

    // Writes the inverse times each of `count` vectors, which are `stride()` apart; no removal may be pending.
    void apply(const double* vectors, double* out, int64_t count) {
        for (int64_t first = 0; first < count; first += kBatch) {  // vectors of one panel
            const int64_t some = count - first < kBatch ? count - first : kBatch;
            apply_batch(vectors + first * stride_, out + first * stride_, some);
        }
    }

    int64_t stride() const { return stride_; }

  private:
    void apply_batch(const double* vectors, double* out, int64_t count) {
        pack_right(vectors, stride_, size_, count, panel_);
        for (int64_t i = 0; i < size_; i += kRows)
            for (int64_t q = 0; q < count; q += kColumns) {
                Vec tile[kRows][2];
                multiply<false>(row(i), stride_, panel_ + q * size_, size_, tile);
                scatter(tile, out, i, q, count);
            }
    }

    double* row(int64_t r) const { return memory_.as<double>() + r * stride_; }

    static void copy(const double* from, double* to, int64_t n) {
        for (int64_t i = 0; i < n; ++i) to[i] = from[i];
    }

    void add_multiple(double factor, const double* a, double* to) const {
        for (int64_t i = 0; i < size_; ++i) to[i] += factor * a[i];
    }

    // Computes tile = sum over k of the k-th column of `left` (kRows elements) times the k-th row of `right` (kColumns
    // elements). With `packed`, each column of `left` is contiguous; otherwise each row is.
    template <bool packed>
    MERCER_INLINE static void multiply(const double* left, int64_t stride, const double* right, int64_t count,
                                       Vec (&tile)[kRows][2]) {
        Vec sums[kRows][2] = {};
        for (int64_t k = 0; k < count; ++k) {
            const Vec first = load(right), second = load(right + kLanes);
            right += kColumns;
#pragma GCC unroll 12
            for (int r = 0; r < kRows; ++r) {
                const double factor = packed ? left[r] : left[r * stride];
                sums[r][0] += factor * first;
                sums[r][1] += factor * second;
            }
            left += packed ? kRows : 1;
        }
        for (int r = 0; r < kRows; ++r) tile[r][0] = sums[r][0], tile[r][1] = sums[r][1];
    }

    // Packs panels of kRows and of kColumns variables, so that `multiply` reads contiguous memory.
    void pack_left(const double* rows, int64_t count) {
        for (int64_t i = 0; i < size_; i += kRows)
            for (int64_t k = 0; k < count; ++k)
                for (int64_t r = 0; r < kRows; ++r)
                    packed_[i * count + k * kRows + r] = i + r < size_ ? rows[k * stride_ + i + r] : 0.0;
    }

    // right(k, q) = vectors[q stride + k], for `length` k and `count` q.
    static void pack_right(const double* vectors, int64_t stride, int64_t length, int64_t count, double* panels) {
        for (int64_t q = 0; q < count; q += kColumns)
            for (int64_t c = 0; c < kColumns; ++c)
                for (int64_t k = 0; k < length; ++k)
                    panels[q * length + k * kColumns + c] = q + c < count ? vectors[(q + c) * stride + k] : 0.0;
    }

    void scatter(const Vec (&tile)[kRows][2], double* out, int64_t i, int64_t q, int64_t count) const {
        for (int64_t r = 0; r < kRows && i + r < size_; ++r)
            for (int64_t c = 0; c < kColumns && q + c < count; ++c)
                out[(q + c) * stride_ + i + r] = tile[r][c / kLanes][c % kLanes];
    }

    // Computes M += sum over k of left_k right_k'. The sum is symmetric, so that only the lower triangle is computed,
    // and then mirrored. `packed_` holds the left factor, `right_` the right factor.
    void add_product(int64_t count) {
        for (int64_t j = 0; j < size_; j += kColumns) {
            for (int64_t k = 0; k < count; ++k)
                for (int64_t c = 0; c < kColumns; ++c)
                    panel_[k * kColumns + c] = j + c < size_ ? right_[k * stride_ + j + c] : 0.0;
            for (int64_t i = j / kRows * kRows; i < size_; i += kRows) {
                Vec tile[kRows][2];
                multiply<true>(packed_ + i * count, 0, panel_, count, tile);
                const bool is_full = i >= j + kColumns - 1 && i + kRows <= size_;
                for (int64_t r = 0; r < kRows; ++r)
                    for (int64_t c = 0; c < kColumns; ++c)
                        if (is_full || (j + c <= i + r && i + r < size_))
                            row(j + c)[i + r] = row(i + r)[j + c] += tile[r][c / kLanes][c % kLanes];
            }
        }
    }

    // Replaces the Schur complement S = L L' of the new variables by its inverse, which must be exactly symmetric. It
    // computes L^-1 column by column, then L^-T L^-1.
    void invert_pivots(int64_t count) {
        double* inverse = pivot_panel_;
        for (int64_t p = 0; p < count; ++p) {
            double* last = pivots_ + p * kBatch;
            for (int64_t q = 0; q < p; ++q)
                last[q] = (last[q] - dot(pivots_ + q * kBatch, last, q)) / pivots_[q * kBatch + q];
            last[p] = __builtin_sqrt(__builtin_fmax(last[p] - dot(last, last, p), least_pivots_[p]));
            for (int64_t q = 0; q < p; ++q)  // a row of `inverse` is a column of L^-1
                inverse[q * kBatch + p] = -dot(last + q, inverse + q * kBatch + q, p - q) / last[p];
            inverse[p * kBatch + p] = 1.0 / last[p];
        }
        for (int64_t p = 0; p < count; ++p)
            for (int64_t q = 0; q <= p; ++q)
                pivots_[q * kBatch + p] = pivots_[p * kBatch + q] =
                    dot(inverse + p * kBatch + p, inverse + q * kBatch + p, count - p);
    }

    int64_t stride_, size_ = 0, pending_ = 0;
    Scratch memory_;
    double *left_, *right_;  // kBatch vectors each; the pending matrix is the sum of left_k right_k'
    double *packed_, *panel_, *alive_, *pivots_, *pivot_panel_, *least_pivots_;
};

}  // namespace mercer::MERCER_ISA

// The inverse of a growing and shrinking principal submatrix, by its Cholesky factor. The factor takes a third of the
// multiplications of the inverse, runs twice as fast in single precision, and is shared by threads. Columns of the
// inverse are computed, many at a time, for variables that are about to leave; a removal changes the inverse by a
// matrix of rank one.
#pragma once

#include "dual/cholesky.hpp"
#include "gram/simd.hpp"
#include "parallel/parallel.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {

template <class Real>
class FactoredInverse {
    using V = VecOf<Real>;
    static constexpr int kRows = kTileRows, kWidth = kLanesOf<Real>, kColumns = 2 * kWidth;  // a tile of registers
    static constexpr int kSpan = (kRows + kWidth - 1) / kWidth;  // vectors for a column of a panel
    static constexpr int kFew = kSpan == 1 ? 2 : 1;  // right sides at a time, if vectors run along rows of a panel
    // Smallest number of right sides for which vectors run across right sides.
    static constexpr int kManySides = 4 * kFew;

  public:
    static constexpr int64_t kBatch = 64;
    // Largest number of removed variables; each costs a multiple of the earlier ones.
    static constexpr int64_t kMaxDead = 256;
    static constexpr bool kFollows = true, kOnRequest = true;  // see Inverse; removed variables keep their places

    FactoredInverse(int64_t capacity, int n_threads)
        : n_threads_(n_threads),
          stride_((capacity + kRows - 1) / kRows * kRows + kRows),
          factor_memory_(sizeof(Real) * static_cast<std::size_t>(offset(stride_ / kRows) + stride_ * 2 * kBatch)),
          factor_(factor_memory_.as<Real>()),
          sides_(factor_ + offset(stride_ / kRows)),
          columns_(sides_ + stride_ * kBatch),
          memory_(sizeof(double) *
                  static_cast<std::size_t>(stride_ * (kBatch + kMaxDead + 1) + kBatch * kBatch + 3 * kMaxDead)),
          products_(memory_.as<double>()),
          own_products_(products_ + kBatch * stride_),
          dead_columns_(own_products_ + kBatch * kBatch),
          alive_(dead_columns_ + kMaxDead * stride_),
          dead_pivots_(alive_ + stride_),
          dead_least_(dead_pivots_ + kMaxDead),
          shares_(dead_least_ + kMaxDead),
          index_memory_(sizeof(int64_t) * static_cast<std::size_t>(kMaxDead + kBatch + stride_)),
          dead_(index_memory_.as<int64_t>()),
          asked_(dead_ + kMaxDead),
          slots_(asked_ + kBatch) {}

    int64_t size() const { return size_; }
    int64_t stride() const { return stride_; }
    void clear() { size_ = n_dead_ = n_asked_ = 0; }
    // Returns whether so few variables have left that removing another one costs less than a new factor.
    bool follows() const { return n_dead_ < kMaxDead && n_dead_ < 32 + size_ / 4; }
    // Returns whether so many variables have left that a new factor costs less than appending variables.
    bool is_worn() const { return 16 * n_dead_ > size_; }
    double* products(int64_t b) { return products_ + b * stride_; }
    double* own_products(int64_t b) { return own_products_ + b * kBatch; }

    // The same as Inverse::append; then all earlier removals are applied again.
    void append(int64_t count, double least) {
        count_ = count;
        const int64_t n_panels = (count + kColumns - 1) / kColumns;
        for_each_panel(n_panels, [](FactoredInverse& self, int64_t q) {
            Real* side = self.side(q);
            for (int64_t k = 0; k < self.size_; ++k)
                for (int64_t c = 0; c < kColumns; ++c) {
                    const int64_t b = q * kColumns + c;
                    side[k * kColumns + c] = b < self.count_ ? static_cast<Real>(self.products(b)[k]) : Real{0};
                }
            self.forward<2>(side, 0);
        });
        store_rows(count);
        factor_corner(count, least);
        size_ += count;
        leave_again();
    }

    // Returns a removed variable, from the next `append` on.
    void revive(int64_t position) {
        alive_[position] = 1.0;
        int64_t n_remaining = 0;
        for (int64_t k = 0; k < n_dead_; ++k)
            if (dead_[k] != position) dead_least_[n_remaining] = dead_least_[k], dead_[n_remaining++] = dead_[k];
        n_dead_ = n_remaining;
    }

    // Columns of the inverse, kBatch at a time. Between the following two functions, request the variables that may
    // leave next.
    bool knows(int64_t position) const { return slots_[position] >= 0; }
    void start_asking() {
        for (int64_t k = 0; k < size_; ++k) slots_[k] = -1;
        n_asked_ = 0;
    }
    void ask(int64_t position) {
        if (n_asked_ == kBatch || knows(position)) return;
        slots_[position] = n_asked_;
        asked_[n_asked_++] = position;
    }
    void answer() {
        if (n_asked_ < kManySides) return answer_few();
        for_each_panel((n_asked_ + kColumns - 1) / kColumns, [](FactoredInverse& self, int64_t q) {
            Real* side = self.side(q);
            for (int64_t k = 0; k < self.size_ * kColumns; ++k) side[k] = Real{0};
            int64_t first = self.size_;
            for (int64_t c = 0; c < kColumns && q * kColumns + c < self.n_asked_; ++c) {
                const int64_t position = self.asked_[q * kColumns + c];
                side[position * kColumns + c] = Real{1};
                first = position < first ? position : first;
            }
            if (self.n_asked_ - q * kColumns <= kWidth)
                self.forward<1>(side, first / kRows), self.backward<1>(side);
            else
                self.forward<2>(side, first / kRows), self.backward<2>(side);
            for (int64_t c = 0; c < kColumns && q * kColumns + c < self.n_asked_; ++c) {
                Real* column = self.columns_ + (q * kColumns + c) * self.stride_;
                for (int64_t k = 0; k < self.size_; ++k) column[k] = side[k * kColumns + c];
            }
        });
    }

    // The same as Inverse::remove, for a variable whose column is known.
    const double* remove(int64_t position, double least) {
        double* column = dead_columns_ + n_dead_ * stride_;
        const Real* stored = columns_ + slots_[position] * stride_;
        for (int64_t i = 0; i < size_; ++i) column[i] = static_cast<double>(stored[i]);
        for (int64_t k = 0; k < n_dead_; ++k) shares_[k] = dead_columns_[k * stride_ + position] / dead_pivots_[k];
        eliminate(column);
        if (!(column[position] > least)) column[position] = least;
        dead_least_[n_dead_] = least;
        dead_pivots_[n_dead_] = column[position];
        dead_[n_dead_++] = position;
        alive_[position] = 0.0;
        return column;
    }

    // The same as Inverse::apply; the result is 0 at removed variables.
    void apply(const double* vectors, double* out, int64_t count) {
        const bool many = count >= kManySides;
        const int64_t together = many ? kColumns : kFew;
        Real* side = this->side(0);
        const int64_t next_row = many ? kColumns : 1, next_side = many ? 1 : stride_;
        for (int64_t q = 0; q < count; q += together) {
            for (int64_t k = 0; k < (many ? size_ * kColumns : kFew * stride_); ++k) side[k] = Real{0};
            for (int64_t c = 0; c < together && q + c < count; ++c)
                for (int64_t k = 0; k < size_; ++k)
                    side[k * next_row + c * next_side] = static_cast<Real>(vectors[(q + c) * stride_ + k]);
            if (!many)
                solve_few(side, 0);
            else if (count - q <= kWidth)
                forward<1>(side, 0), backward<1>(side);
            else
                forward<2>(side, 0), backward<2>(side);
            for (int64_t c = 0; c < together && q + c < count; ++c) {
                double* to = out + (q + c) * stride_;
                const double* from = vectors + (q + c) * stride_;
                for (int64_t k = 0; k < size_; ++k) to[k] = static_cast<double>(side[k * next_row + c * next_side]);
                for (int64_t k = 0; k < n_dead_; ++k)
                    shares_[k] = dot(dead_columns_ + k * stride_, from, size_) / dead_pivots_[k];
                eliminate(to);
            }
        }
    }

  private:
    // Computes the new rows of the factor by forward substitution (`forward`), except the corner of the new variables,
    // and stores them.
    void store_rows(int64_t count) {
        for (int64_t b = 0; b < count;) {
            const int64_t r = size_ + b, of_panel = kRows - r % kRows, of_side = kColumns - b % kColumns;
            int64_t together = of_panel < of_side ? of_panel : of_side;
            if (count - b < together) together = count - b;
            Real* to = panel(r / kRows) + r % kRows;
            if (r % kRows == 0)
                for (int64_t k = 0; k < kRows * (r + kRows); ++k) to[k] = Real{0};
            const Real* solved = side(b / kColumns) + b % kColumns;
            if (together == kRows)
                for (int64_t k = 0; k < size_; ++k)
                    for (int64_t c = 0; c < kRows; ++c) to[k * kRows + c] = solved[k * kColumns + c];
            else
                for (int64_t k = 0; k < size_; ++k)
                    for (int64_t c = 0; c < together; ++c) to[k * kRows + c] = solved[k * kColumns + c];
            for (int64_t c = 0; c < together; ++c) alive_[r + c] = 1.0, slots_[r + c] = -1;
            b += together;
        }
    }

    // Computes the factor of the Schur complement of the new variables.
    void factor_corner(int64_t count, double least) {
        double least_pivots[kBatch];
        for (int64_t b = 0; b < count; ++b) least_pivots[b] = least * own_products(b)[b];
        const int64_t first = size_ / kRows, n_panels = (size_ + count - 1) / kRows - first + 1;
        for_each_panel(count > 0 ? n_panels : 0, [](FactoredInverse& self, int64_t q) { self.subtract_products(q); });
        for (int64_t b = 0; b < count; ++b) {
            double* last = own_products(b);
            for (int64_t c = 0; c < b; ++c) last[c] = (last[c] - dot(own_products(c), last, c)) / own_products(c)[c];
            last[b] = __builtin_sqrt(__builtin_fmax(last[b] - dot(last, last, b), least_pivots[b]));
            const int64_t r = size_ + b;
            for (int64_t c = 0; c <= b; ++c)
                panel(r / kRows)[(size_ + c) * kRows + r % kRows] = static_cast<Real>(last[c]);
        }
    }

    // Subtracts the contribution of earlier variables from the matrix of the new variables, in rows of their q-th
    // panel.
    void subtract_products(int64_t q) {
        const int64_t p = size_ / kRows + q;
        for (int64_t first = 0; first < count_ && first < (p + 1) * kRows - size_; first += kColumns) {
            Real tile[kRows * kColumns];
            multiply<2>(panel(p), side(first / kColumns), 0, size_, tile);
            for (int64_t r = 0; r < kRows; ++r) {
                const int64_t b = p * kRows + r - size_;
                for (int64_t c = 0; b >= 0 && b < count_ && c < kColumns && first + c < count_; ++c)
                    own_products(b)[first + c] -= static_cast<double>(tile[r * kColumns + c]);
            }
        }
    }

    // Applies all removals again, after variables were appended or returned.
    void leave_again() {
        const int64_t n_dead = n_dead_;
        for (int64_t k = 0; k < n_dead; ++k) alive_[dead_[k]] = 1.0;
        n_dead_ = 0;
        start_asking();
        for (int64_t k = 0; k < n_dead; ++k) {
            if (!knows(dead_[k])) {
                start_asking();
                for (int64_t next = k; next < n_dead && n_asked_ < kBatch; ++next) ask(dead_[next]);
                answer();
            }
            remove(dead_[k], dead_least_[k]);
        }
    }

    static int64_t offset(int64_t p) { return kRows * kRows * p * (p + 1) / 2; }
    // kRows rows of the factor, up to the diagonal; elements of a column are contiguous.
    Real* panel(int64_t p) const { return factor_ + offset(p); }
    // kColumns right sides; elements of a row are contiguous.
    Real* side(int64_t q) const { return sides_ + q * kColumns * stride_; }

    // Computes the requested columns, if they are fewer than kManySides. The memory then has space for one more column.
    void answer_few() {
        for (int64_t q = 0; q < n_asked_; q += kFew) {
            Real* side = columns_ + q * stride_;
            int64_t first = size_;
            for (int64_t c = 0; c < kFew; ++c) {
                for (int64_t k = 0; k < stride_; ++k) side[c * stride_ + k] = Real{0};
                if (q + c == n_asked_) break;
                const int64_t position = asked_[q + c];
                side[c * stride_ + position] = Real{1};
                first = position < first ? position : first;
            }
            solve_few(side, first / kRows);
        }
    }

    // Subtracts the contribution of removed variables from a column of the inverse, or from its product with a vector.
    void eliminate(double* values) const {
        constexpr int64_t kTogether = 8;  // removals that are applied each time a value is read and written
        int64_t k = 0;
        for (; k + kTogether <= n_dead_; k += kTogether) subtract_columns<kTogether>(k, values);
        for (; k < n_dead_; ++k) subtract_columns<1>(k, values);
        for (int64_t i = 0; i < size_; ++i) values[i] *= alive_[i];
    }

    template <int64_t count>
    void subtract_columns(int64_t first, double* __restrict values) const {
        const double *columns = dead_columns_ + first * stride_, *shares = shares_ + first;
        for (int64_t i = 0; i < size_; ++i) {
            double value = values[i];
#pragma GCC unroll 8
            for (int64_t k = 0; k < count; ++k) value -= shares[k] * columns[k * stride_ + i];
            values[i] = value;
        }
    }

    struct Job {
        FactoredInverse* self;
        void (*task)(FactoredInverse&, int64_t);
    };
    void for_each_panel(int64_t count, void (*task)(FactoredInverse&, int64_t)) {
        Job job{this, task};
        parallel_for(
            count, n_threads_,
            [](void* context, int64_t q) {
                const Job& job = *static_cast<Job*>(context);
                job.task(*job.self, q);
            },
            &job);
    }

    // Computes a tile of products of rows with right sides, summed over the elements first .. last - 1. The tile has
    // `vectors` vectors of right sides.
    template <int vectors>
    MERCER_INLINE static void multiply(const Real* rows, const Real* right, int64_t first, int64_t last, Real* tile) {
        V sums[kRows][vectors] = {};
        rows += first * kRows, right += first * kColumns;
        for (int64_t k = first; k < last; ++k) {
            V values[vectors];
            for (int h = 0; h < vectors; ++h) values[h] = load_vector(right + h * kWidth);
            right += kColumns;
#pragma GCC unroll 12
            for (int r = 0; r < kRows; ++r)
                for (int h = 0; h < vectors; ++h) sums[r][h] += rows[r] * values[h];
            rows += kRows;
        }
        for (int r = 0; r < kRows; ++r)
            for (int h = 0; h < vectors; ++h) store(tile + r * kColumns + h * kWidth, sums[r][h]);
    }

    // Computes right = L^-1 right; right is 0 before the panel `first`.
    template <int vectors>
    void forward(Real* right, int64_t first) const {
        for (int64_t p = first; p * kRows < size_; ++p) {
            Real tile[kRows * kColumns];
            multiply<vectors>(panel(p), right, first * kRows, p * kRows, tile);
            const Real* corner = panel(p) + p * kRows * kRows;
            for (int64_t r = 0; r < kRows && p * kRows + r < size_; ++r) {
                Real* row = right + (p * kRows + r) * kColumns;
                for (int h = 0; h < vectors; ++h) {
                    V value = load_vector(row + h * kWidth) - load_vector(tile + r * kColumns + h * kWidth);
                    for (int64_t c = 0; c < r; ++c)
                        value -= corner[c * kRows + r] * load_vector(right + (p * kRows + c) * kColumns + h * kWidth);
                    store(row + h * kWidth, value / corner[r * kRows + r]);
                }
            }
        }
    }

    // Computes right = L'^-1 right.
    template <int vectors>
    void backward(Real* right) const {
        for (int64_t p = (size_ - 1) / kRows; p >= 0 && size_ > 0; --p) {
            const Real* rows = panel(p);
            const Real* corner = rows + p * kRows * kRows;
            V solved[kRows][vectors] = {};
            for (int64_t r = kRows - 1; r >= 0; --r) {
                if (p * kRows + r >= size_) continue;
                Real* row = right + (p * kRows + r) * kColumns;
                for (int h = 0; h < vectors; ++h) {
                    V value = load_vector(row + h * kWidth);
                    for (int64_t c = r + 1; c < kRows; ++c) value -= corner[r * kRows + c] * solved[c][h];
                    solved[r][h] = value / corner[r * kRows + r];
                    store(row + h * kWidth, solved[r][h]);
                }
            }
            for (int64_t k = 0; k < p * kRows; ++k) {
                V sums[vectors] = {};
#pragma GCC unroll 12
                for (int r = 0; r < kRows; ++r)
                    for (int h = 0; h < vectors; ++h) sums[h] += rows[r] * solved[r][h];
                rows += kRows;
                for (int h = 0; h < vectors; ++h) store(right + h * kWidth, load_vector(right + h * kWidth) - sums[h]);
                right += kColumns;
            }
            right -= p * kRows * kColumns;
        }
    }

    // Computes x = (L L')^-1 x for kFew right sides, `stride_` apart, that are 0 before the panel `first` and after the
    // last variable. They are too few to fill a vector, so that vectors run along the rows of a panel.
    void solve_few(Real* x, int64_t first) const {
        forward_few(x, first);
        backward_few(x);
    }

    // The same as `forward`. Elements of a vector beyond the end of a column belong to the next column and are not
    // used.
    void forward_few(Real* x, int64_t first) const {
        constexpr int64_t kTogether = 6;  // columns with independent sums
        static_assert(kRows % kTogether == 0);
        for (int64_t p = first; p * kRows < size_; ++p) {
            V sums[kTogether][kFew][kSpan] = {};
            const Real* column = panel(p) + first * kRows * kRows;
            for (int64_t k = first * kRows; k < p * kRows; k += kTogether)
#pragma GCC unroll 6
                for (int64_t j = 0; j < kTogether; ++j, column += kRows)
                    for (int h = 0; h < kFew; ++h)
                        for (int s = 0; s < kSpan; ++s)
                            sums[j][h][s] += x[h * stride_ + k + j] * load_vector(column + s * kWidth);
            for (int h = 0; h < kFew; ++h) {
                Real* own_block = x + h * stride_ + p * kRows;
                Real products[kSpan * kWidth];
                for (int s = 0; s < kSpan; ++s) {
                    V total = sums[0][h][s];
                    for (int64_t j = 1; j < kTogether; ++j) total += sums[j][h][s];
                    store(products + s * kWidth, total);
                }
                for (int64_t r = 0; r < kRows && p * kRows + r < size_; ++r) {
                    Real value = own_block[r] - products[r];
                    for (int64_t c = 0; c < r; ++c) value -= column[c * kRows + r] * own_block[c];
                    own_block[r] = value / column[r * kRows + r];
                }
            }
        }
    }

    // The same as `backward`.
    void backward_few(Real* x) const {
        for (int64_t p = (size_ - 1) / kRows; p >= 0 && size_ > 0; --p) {
            V sums[kFew][kRows][kSpan] = {};
            for (int64_t q = p + 1; q * kRows < size_; ++q) {
                const Real* block = panel(q) + p * kRows * kRows;
                V values[kFew][kSpan];
                for (int h = 0; h < kFew; ++h)
                    for (int s = 0; s < kSpan; ++s)
                        values[h][s] = load_vector(x + h * stride_ + q * kRows + s * kWidth);
#pragma GCC unroll 12
                for (int r = 0; r < kRows; ++r)
                    for (int s = 0; s < kSpan; ++s) {
                        const V column = load_vector(block + r * kRows + s * kWidth);
                        for (int h = 0; h < kFew; ++h) sums[h][r][s] += values[h][s] * column;
                    }
            }
            const Real* corner = panel(p) + p * kRows * kRows;
            for (int h = 0; h < kFew; ++h) {
                Real* own_block = x + h * stride_ + p * kRows;
                Real products[kRows][kSpan * kWidth];
                for (int r = 0; r < kRows; ++r)
                    for (int s = 0; s < kSpan; ++s) store(products[r] + s * kWidth, sums[h][r][s]);
                for (int64_t r = kRows - 1; r >= 0; --r) {
                    if (p * kRows + r >= size_) continue;
                    Real value = own_block[r];
                    for (int64_t c = 0; c < kRows; ++c) value -= products[r][c];
                    for (int64_t c = r + 1; c < kRows; ++c) value -= corner[r * kRows + c] * own_block[c];
                    own_block[r] = value / corner[r * kRows + r];
                }
            }
        }
    }

    int n_threads_;
    int64_t stride_, size_ = 0, count_ = 0, n_dead_ = 0, n_asked_ = 0;
    Scratch factor_memory_;
    Real *factor_, *sides_, *columns_;
    Scratch memory_;
    double *products_, *own_products_, *dead_columns_, *alive_, *dead_pivots_, *dead_least_, *shares_;
    Scratch index_memory_;
    int64_t *dead_, *asked_, *slots_;
};

}  // namespace mercer::MERCER_ISA

// The Cholesky factor L L' of a growing and shrinking principal submatrix. Rows are appended and deleted in O(size^2).
#pragma once

#include "gram/simd.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {

inline double dot(const double* a, const double* b, int64_t n) {
    Vec total{};
    int64_t k = 0;
    for (; k + kLanes <= n; k += kLanes) total += load(a + k) * load(b + k);
    double rest = sum(total);
    for (; k < n; ++k) rest += a[k] * b[k];
    return rest;
}

inline double sum_of_sizes(const double* values, int64_t n) {
    Vec total{};
    int64_t k = 0;
    for (; k + kLanes <= n; k += kLanes) total += max(load(values + k), -load(values + k));
    double rest = sum(total);
    for (; k < n; ++k) rest += __builtin_fabs(values[k]);
    return rest;
}

// Returns the largest absolute value; NaN is ignored.
inline double largest_size(const double* values, int64_t n) {
    Vec most{};
    int64_t k = 0;
    for (; k + kLanes <= n; k += kLanes) most = max(max(load(values + k), -load(values + k)), most);
    double largest = 0.0;
    for (int lane = 0; lane < kLanes; ++lane) largest = __builtin_fmax(largest, most[lane]);
    for (; k < n; ++k) largest = __builtin_fmax(largest, __builtin_fabs(values[k]));
    return largest;
}

class Cholesky {
  public:
    static constexpr int64_t kBatch = 64;
    // kFollows is false, because rounding errors would make an updated direction useless.
    static constexpr bool kFollows = false, kOnRequest = false;

    explicit Cholesky(int64_t capacity, int)
        : stride_(capacity + 1),
          memory_(sizeof(double) * static_cast<std::size_t>(stride_ * (stride_ + kBatch) + kBatch * kBatch)),
          products_(memory_.as<double>() + stride_ * stride_),
          own_products_(products_ + kBatch * stride_) {}

    int64_t size() const { return size_; }
    bool follows() const { return false; }
    int64_t stride() const { return stride_; }
    void clear() { size_ = 0; }
    double* products(int64_t b) { return products_ + b * stride_; }
    double* own_products(int64_t b) { return own_products_ + b * kBatch; }

    // The same as Inverse::append.
    void append(int64_t count, double least) {
        for (int64_t b = 0; b < count; ++b) {
            const int64_t before = size_ - b;
            double* last = row(size_);
            for (int64_t k = 0; k < before; ++k) last[k] = products(b)[k];
            for (int64_t k = 0; k < b; ++k) last[before + k] = own_products(b)[k];
            for (int64_t k = 0; k < size_; ++k) last[k] = (last[k] - dot(row(k), last, k)) / row(k)[k];
            const double square = own_products(b)[b], pivot = square - dot(last, last, size_);
            last[size_] = __builtin_sqrt(pivot > least * square ? pivot : least * square);
            ++size_;
        }
    }

    // Deletes a variable and restores the triangle by Givens rotations of neighbouring columns.
    template <class Move>
    void remove(int64_t position, Move move) {
        --size_;
        for (int64_t r = position; r < size_; ++r) {
            move(r + 1, r);
            for (int64_t c = 0; c <= r + 1; ++c) row(r)[c] = row(r + 1)[c];
        }
        for (int64_t c = position; c < size_; ++c) {
            double* pivot_row = row(c);
            const double a = pivot_row[c], b = pivot_row[c + 1], length = __builtin_sqrt(a * a + b * b);
            const double cosine = a / length, sine = b / length;
            pivot_row[c] = length;
            for (int64_t r = c + 1; r < size_; ++r) {
                const double left = row(r)[c], right = row(r)[c + 1];
                row(r)[c] = cosine * left + sine * right;
                row(r)[c + 1] = cosine * right - sine * left;
            }
        }
    }

    // The same as Inverse::apply: solves L L' x = b for each vector b.
    void apply(const double* vectors, double* out, int64_t count) const {
        for (int64_t v = 0; v < count; ++v) {
            double* x = out + v * stride_;
            for (int64_t k = 0; k < size_; ++k) x[k] = (vectors[v * stride_ + k] - dot(row(k), x, k)) / row(k)[k];
            for (int64_t k = size_ - 1; k >= 0; --k) {
                x[k] /= row(k)[k];
                for (int64_t c = 0; c < k; ++c) x[c] -= x[k] * row(k)[c];
            }
        }
    }

  private:
    double* row(int64_t r) const { return memory_.as<double>() + r * stride_; }

    int64_t stride_, size_ = 0;
    Scratch memory_;
    double *products_, *own_products_;
};

}  // namespace mercer::MERCER_ISA

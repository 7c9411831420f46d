// L L' of a growing and shrinking principal submatrix: rows are appended and deleted in O(size^2).
#pragma once

#include "mercer/scratch.hpp"
#include "mercer/simd.hpp"

namespace mercer::MERCER_ISA {

inline double dot(const double* a, const double* b, int64_t n) {
    Vec total{};
    int64_t k = 0;
    for (; k + kLanes <= n; k += kLanes) total += load(a + k) * load(b + k);
    double rest = sum(total);
    for (; k < n; ++k) rest += a[k] * b[k];
    return rest;
}

class Cholesky {
  public:
    explicit Cholesky(int64_t capacity)
        : stride_(capacity + 1), memory_(sizeof(double) * static_cast<std::size_t>(stride_ * stride_)) {}

    int64_t size() const { return size_; }

    // Appends a row of the matrix: `products` with the present variables, `diagonal` with itself. A pivot that
    // rounding has eaten is replaced by `least_pivot`: the variable then moves as if slightly regularised.
    void append(const double* products, double diagonal, double least_pivot) {
        double* last = row(size_);
        for (int64_t k = 0; k < size_; ++k) last[k] = (products[k] - dot(row(k), last, k)) / row(k)[k];
        const double pivot = diagonal - dot(last, last, size_);
        last[size_] = __builtin_sqrt(pivot > least_pivot ? pivot : least_pivot);
        ++size_;
    }

    // Deletes a variable and restores the triangle by Givens rotations of neighbouring columns.
    void remove(int64_t position) {
        --size_;
        for (int64_t r = position; r < size_; ++r)
            for (int64_t c = 0; c <= r + 1; ++c) row(r)[c] = row(r + 1)[c];
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

    // Solves L L' x = x in place.
    void solve(double* x) const {
        for (int64_t k = 0; k < size_; ++k) x[k] = (x[k] - dot(row(k), x, k)) / row(k)[k];
        for (int64_t k = size_ - 1; k >= 0; --k) {
            x[k] /= row(k)[k];
            for (int64_t c = 0; c < k; ++c) x[c] -= x[k] * row(k)[c];
        }
    }

  private:
    double* row(int64_t r) const { return memory_.as<double>() + r * stride_; }

    int64_t stride_, size_ = 0;
    Scratch memory_;
};

}  // namespace mercer::MERCER_ISA

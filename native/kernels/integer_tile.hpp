// Inner products of rows of small integers, many to an instruction, and exact.
#pragma once

#include <cstdint>

#include "kernels/view.hpp"

namespace mercer {

// Behind the units of a row: the sum of squares; of bytes, 128 times their sum.
enum RowSums { kSquares, kLift, kRowSums };

// Sums of squares, and of bytes, stay below: all that is made of them, squared distances too, then fits into 32 bits.
constexpr double kMostSquares = 0x1p29, kMostSum = 0x1p22;

// Squares of steps between these are far from the ends of single precision.
constexpr bool is_step(double step) { return 0x1p-40 <= step && step <= 0x1p40; }
constexpr const char* kStepProblem = "the step must be between 2^-40 and 2^40";

constexpr int64_t units_of(int64_t n_features, bool bytes) {
    return bytes ? (n_features + 3) / 4 : (n_features + 1) / 2;
}

// tile[r][c] = factor (left[n_units][r] + right[n_units][c] - 2 <left[.][r], right[.][c]>), for as many rows and
// columns as a tile of single precision has; left[unit][row], right[unit][column]. Of bytes, those on the right have
// 128 subtracted, for processors multiply bytes with signed ones.
using IntegerTile = void (*)(const int32_t* left, const int32_t* right, int64_t n_units, bool bytes, float factor,
                             float* tile);

// The multiples of a row of numbers, as units, and what the row says of itself; whether each is one, to half a unit of
// single precision.
using IntegerRow = bool (*)(const void* row, Scalar scalar, int64_t stride, int64_t n_features, double step, bool bytes,
                            int32_t* units);

namespace avx512_vnni {  // for processors that multiply and add integers
void integer_tile(const int32_t*, const int32_t*, int64_t, bool, float, float*);
bool integer_row(const void*, Scalar, int64_t, int64_t, double, bool, int32_t*);
}  // namespace avx512_vnni

}  // namespace mercer

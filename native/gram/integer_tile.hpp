// Exact inner products of rows of small integers; one instruction multiplies and adds many of them.
#pragma once

#include <cstdint>

#include "gram/view.hpp"

namespace mercer {

// Sums that are stored after the units of a row: the sum of squares and, for bytes, 128 times the sum.
enum RowSums { kSquares, kLift, kRowSums };

// Upper limits of the sum of squares and of the sum of bytes of a row. Below them every result, squared distances
// included, fits in 32 bits.
constexpr double kMostSquares = 0x1p29, kMostSum = 0x1p22;

// Whether float32 represents the square of the step without overflow or underflow, with a wide margin.
constexpr bool is_step(double step) { return 0x1p-40 <= step && step <= 0x1p40; }
constexpr const char* kStepProblem = "the step must be between 2^-40 and 2^40";

constexpr int64_t units_of(int64_t n_features, bool bytes) {
    return bytes ? (n_features + 3) / 4 : (n_features + 1) / 2;
}

// tile[r][c] = factor (left[n_units][r] + right[n_units][c] - 2 <left[.][r], right[.][c]>). The tile has the shape of a
// single-precision tile. Layouts: left[unit][row], right[unit][column]. Bytes on the right are stored minus 128,
// because the instruction multiplies unsigned bytes by signed bytes.
using IntegerTile = void (*)(const int32_t* left, const int32_t* right, int64_t n_units, bool bytes, float factor,
                             float* tile);

// Writes a row's numbers, divided by the step, as packed integers, followed by its RowSums. Returns whether every
// number is a multiple of the step, to half a unit in the last place of float32.
using IntegerRow = bool (*)(const void* row, Scalar scalar, int64_t stride, int64_t n_features, double step, bool bytes,
                            int32_t* units);

namespace avx512_vnni {  // for processors with AVX512_VNNI, which multiplies and adds small integers
void integer_tile(const int32_t*, const int32_t*, int64_t, bool, float, float*);
bool integer_row(const void*, Scalar, int64_t, int64_t, double, bool, int32_t*);
}  // namespace avx512_vnni

}  // namespace mercer

// Kernel values by tiles: the one place where k(x, z) is evaluated natively.
#pragma once

#include "kernels/bit_tile.hpp"
#include "kernels/integer_tile.hpp"
#include "kernels/program.hpp"
#include "kernels/view.hpp"

namespace mercer {

struct TileRequest {
    Program program;
    RowsView left, right;
    const double* centre;  // subtracted from every row before distances are taken; may be null; 0 in columns of passes
                           // that are neither products nor differences
    bool symmetric;        // left and right are the same rows: one triangle may be evaluated and stand for both
    int n_threads;
    BitTile bit_tile = nullptr;          // of rows of bits
    IntegerTile integer_tile = nullptr;  // of rows of integers, where both sides have the same step
    int64_t part = 0, parts = 1;         // of sums: which of so many summands is wanted; together they are the product
};

// out[i * out_stride + j] = k(left_i, right_j)
using BlockFunction = void (*)(const TileRequest&, double* out, int64_t out_stride);

// The same in single precision: evaluated in it, or in double precision and rounded.
using BlockSingleFunction = void (*)(const TileRequest&, float* out, int64_t out_stride);

// out[i * n_vectors + t] += sum_j k(left_i, right_j) vectors[j * n_vectors + t]; no kernel value is stored.
// The single-precision twin evaluates tiles in it, and sums in double all the same.
// The order of summation depends on the tables and the rows asked for alone, never on the threads.
using MatvecFunction = void (*)(const TileRequest&, const double* vectors, int64_t n_vectors, double* out);

namespace baseline {
void block(const TileRequest&, double*, int64_t);
void block_single(const TileRequest&, float*, int64_t);
void block_rounded(const TileRequest&, float*, int64_t);
void matvec(const TileRequest&, const double*, int64_t, double*);
void matvec_single(const TileRequest&, const double*, int64_t, double*);
}  // namespace baseline
namespace avx2 {
void block(const TileRequest&, double*, int64_t);
void block_single(const TileRequest&, float*, int64_t);
void block_rounded(const TileRequest&, float*, int64_t);
void matvec(const TileRequest&, const double*, int64_t, double*);
void matvec_single(const TileRequest&, const double*, int64_t, double*);
}  // namespace avx2
namespace avx512 {
void block(const TileRequest&, double*, int64_t);
void block_single(const TileRequest&, float*, int64_t);
void block_rounded(const TileRequest&, float*, int64_t);
void matvec(const TileRequest&, const double*, int64_t, double*);
void matvec_single(const TileRequest&, const double*, int64_t, double*);
}  // namespace avx512

}  // namespace mercer

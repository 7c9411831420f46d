// Evaluates kernel values k(x, z) by tiles. All kernels except those of strings are evaluated here.
#pragma once

#include "gram/bit_tile.hpp"
#include "gram/integer_tile.hpp"
#include "gram/program.hpp"
#include "gram/view.hpp"

namespace mercer {

struct TileRequest {
    Program program;
    RowsView left, right;
    // Subtracted from every row before distances are computed; may be null. It is 0 in columns of passes that are
    // neither products nor differences.
    const double* centre;
    bool symmetric;  // whether left and right are the same rows, so that one triangle of the matrix is enough
    int n_threads;
    BitTile bit_tile = nullptr;          // for rows of bits
    IntegerTile integer_tile = nullptr;  // for rows of integers; null unless both sides have the same step
    int64_t part = 0, parts = 1;         // a product is the sum of `parts` parts; this request computes one of them
};

// out[i * out_stride + j] = k(left_i, right_j).
using BlockFunction = void (*)(const TileRequest&, double* out, int64_t out_stride);

// The same with float32 output: block_single evaluates in float32; block_rounded evaluates in float64 and rounds.
using BlockSingleFunction = void (*)(const TileRequest&, float* out, int64_t out_stride);

// out[i * n_vectors + t] += sum_j k(left_i, right_j) vectors[j * n_vectors + t]; no kernel value is stored.
// matvec_single evaluates tiles in single precision, but sums in double precision.
// The order of summation depends only on the tables and the requested rows, never on the number of threads.
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

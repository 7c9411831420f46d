// Sweeps over the rows of a table: products of rows with vectors, and sums over the rows. q is the number of columns,
// including the column of the constant. All sums are in double precision, and their order depends only on the input.
//
// The functions return false if a CSR table has an index or a pointer out of range; the output is then undefined.
#pragma once

#include "rows/table.hpp"

namespace mercer {

// out[i][k] = sum_j x_ij vectors[j][k]
struct RowProducts {
    const LinearTable& table;
    const double* vectors;  // q x n_vectors
    int64_t n_vectors;
    double* out;  // n_rows x n_vectors
};

// sums[j][k] = sum_i weights[i][k] x_ij
// gram[j][l] += sum_i gram_weights[i] (scales[j] x_ij) (scales[l] x_il); the matrix must be symmetric.
// Rows whose weights are all 0 are not visited.
struct WeightedSums {
    const LinearTable& table;
    const double* weights;       // n_rows x n_sums
    int64_t n_sums;              // 0: no sums
    double* sums;                // q x n_sums
    const double* gram_weights;  // n_rows; null: no Gram matrix
    const double* scales;        // q
    double* gram;                // q x q
};

using RowProductsFunction = bool (*)(const RowProducts&, int n_threads);
using WeightedSumsFunction = bool (*)(const WeightedSums&, int n_threads);
using SquaresFunction = bool (*)(const LinearTable&, double* out, int n_threads);  // sums of squares

namespace baseline {
bool row_products(const RowProducts&, int);
bool row_squares(const LinearTable&, double*, int);
bool weighted_sums(const WeightedSums&, int);
bool column_squares(const LinearTable&, double*, int);
}  // namespace baseline
namespace avx2 {
bool row_products(const RowProducts&, int);
bool row_squares(const LinearTable&, double*, int);
bool weighted_sums(const WeightedSums&, int);
bool column_squares(const LinearTable&, double*, int);
}  // namespace avx2
namespace avx512 {
bool row_products(const RowProducts&, int);
bool row_squares(const LinearTable&, double*, int);
bool weighted_sums(const WeightedSums&, int);
bool column_squares(const LinearTable&, double*, int);
}  // namespace avx512

}  // namespace mercer

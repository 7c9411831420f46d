// All that Newton's method needs at a point, in one pass over the rows of a dense table: decision values, terms of the
// rows, and the sums of their derivatives. Sums are in double precision, and their order depends only on the input.
#pragma once

#include "rows/row_terms.hpp"
#include "rows/table.hpp"

namespace mercer {

// pull[j] = sum_i beta_i x_ij for the coefficients beta of the terms
// gram[j][l] += sum_i h_i (scales[j] x_ij) (scales[l] x_il) for the second derivatives h, or with `old_curvature` for
// their changes. The matrix must be symmetric.
struct NewtonPass {
    const LinearTable& table;  // dense, of at most 256 columns with that of the constant
    const RowTerms& terms;
    const double* w;    // q; null: the decision values are given
    double* z;          // n_rows; written if there is w
    double* curvature;  // n_rows; null: not stored
    bool is_update;     // whether `curvature` has the old second derivatives
    const double* scales;
    double *pull, *gram;
};

// Sums over the rows: of the terms, of beta^2, of the second derivatives, and of the absolute values of their changes.
struct PassSums {
    TermSums terms;
    double squares, curvature, change;
};

using NewtonPassFunction = PassSums (*)(const NewtonPass&, int n_threads);

namespace baseline {
PassSums newton_pass(const NewtonPass&, int);
}  // namespace baseline
namespace avx2 {
PassSums newton_pass(const NewtonPass&, int);
}  // namespace avx2
namespace avx512 {
PassSums newton_pass(const NewtonPass&, int);
}  // namespace avx512

}  // namespace mercer

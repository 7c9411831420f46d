// What the rows add to the objective that Newton's method minimises, and its derivatives, as functions of the decision
// values z. A row has a target y and a charge C >= 0. With r = y - z, its term is
//
//     C max over m of  m r - epsilon |m| - (m - share)^2 / (2 factor),   m between the bounds,
//
// which for share = 0, factor = 2 and no bounds is a squared loss, and for the bounds of a loss with a kink (hinge,
// epsilon-insensitive) is that loss, smoothed by a proximal step from `share`. Or it is C ln(1 + exp(-y z)).
//
// All sums are in double precision, and their order depends only on the input.
#pragma once

#include <cstdint>

namespace mercer {

struct RowTerms {
    bool is_logistic;
    bool one_sided;  // whether m must have the sign of y
    bool bounded;    // whether |m| <= 1
    double epsilon, factor;
    double unit;  // second derivatives are returned in units of factor / unit
    int64_t count;
    const double* targets;
    const double* charges;
    const double* shares;  // null: all 0
};

// Sums over the rows: the terms; the losses without the proximal part; and by how much the losses exceed
// m r - epsilon |m|, which is what the rows add to the duality gap.
struct TermSums {
    double total, loss, excess;
};

// beta is minus the first derivative, and curvature the second one.
struct TermSlopes {
    double *beta, *curvature;
};

// The derivatives of the sum of the terms at z + t change, by t, for several t.
struct TermLine {
    const double *z, *change;
    const double* lengths;  // the values of t
    int64_t n_lengths;
    double *slopes, *bends;
};

using RowTermsFunction = TermSums (*)(const RowTerms&, const double* z, const TermSlopes&, int n_threads);
using TermLineFunction = void (*)(const RowTerms&, const TermLine&, int n_threads);

namespace baseline {
TermSums row_terms(const RowTerms&, const double*, const TermSlopes&, int);
void term_line(const RowTerms&, const TermLine&, int);
}  // namespace baseline
namespace avx2 {
TermSums row_terms(const RowTerms&, const double*, const TermSlopes&, int);
void term_line(const RowTerms&, const TermLine&, int);
}  // namespace avx2
namespace avx512 {
TermSums row_terms(const RowTerms&, const double*, const TermSlopes&, int);
void term_line(const RowTerms&, const TermLine&, int);
}  // namespace avx512

}  // namespace mercer

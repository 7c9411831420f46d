// Coordinate descent on a quadratic function given by its matrix, with a weighted sum of absolute values.
#pragma once

#include <cstdint>

namespace mercer {

// Minimises u' M u / 2 + c' u + sum_j penalty_j |u_j| over u, where M is positive semidefinite.
struct Lasso {
    const double* matrix;  // M, (size, size), rows contiguous
    int64_t size;
    const double* penalty;
    double* gradient;  // M u + c
    double* u;
};

struct LassoReport {
    int64_t n_passes;  // passes over all elements
    double violation;  // sum of the violations of optimality in the last of them, each before its step
};

// Makes passes until the sum of the violations is at most `target`, but at most `most`. Between two passes over all
// elements, it makes passes over those that are not 0. An element without curvature stays.
LassoReport descend_lasso(const Lasso& lasso, double target, int64_t most);

}  // namespace mercer

// Dual coordinate descent for the joint linear machine of Crammer and Singer: row after row, all classes of a row at
// once.
//
// Solves max over beta of minus the sum of beta_ik with k != y_i minus ||W||^2 / 2, where W_k = sum_i beta_ik x_i, the
// sum of beta_ik over k is 0, and beta_ik <= C_i [k = y_i] [Crammer & Singer 2001; Keerthi, Sundararajan, Chang, Hsieh
// & Lin 2008].
#pragma once

#include <cstdint>
#include <memory>

#include "rows/dual_descent.hpp"

namespace mercer {

struct JointDescentProblem {
    int64_t n_classes;
    const int64_t* codes;   // class of each row
    const double* charges;  // C_i >= 0; rows of charge 0 are not visited
    double* beta;           // n x n_classes, feasible
    double* w;              // table.width() x n_classes
    uint64_t seed;
    bool (*stop)(void*);
    void* stop_context;
};

// The solver, with the interface of that for two classes; a step visits a row.
// Null if a CSR table has indices out of range.
std::unique_ptr<DualDescent> make_joint_descent(const LinearTable& table, const JointDescentProblem& problem);

}  // namespace mercer

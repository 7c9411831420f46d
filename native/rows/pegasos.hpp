// Stochastic subgradient steps on the hinge loss (Pegasos) for one machine, or for each class against the others.
//
// The vector of machine k is w_k = scale_k v_k, so that a step costs as many operations as its rows have entries:
// shrinking w changes the scale alone. The average of all w is known in the same way, see `lag`.
#pragma once

#include <cstdint>

#include "rows/table.hpp"

namespace mercer {

// What a learner knows between two steps. Matrices have a row for each column of the table and a last one for the
// constant, even if the table has no constant. They have a column for each machine.
struct PegasosState {
    int64_t n_rows, n_machines;
    double* v;        // (n_rows, n_machines)
    double* lag;      // the same; the sum of all w_k, weighted, is mass_k v_k - lag_k; null without averaging
    double* scale;    // (n_machines)
    double* sq_norm;  // ||v_k||^2, if the steps project
    double* mass;     // sum of scale_k over the steps, weighted
    double* charged;  // sum of the charges of all rows so far
    double& seen;     // t: sum of the weights of all rows so far
    double& total;    // sum of the weights of the steps in the average
    double& stale;    // steps since sq_norm was computed from v
};

// How steps are made.
struct PegasosRule {
    double alpha;  // lambda, the factor of ||w||^2 / 2
    int64_t batch_size;
    bool projects;
};

// The rows in the order of the visits. Codes and weights belong to the rows of the table. The charge of a row is its
// weight times the factor of its class; for a machine of one class against the others, the others have factor 1.
// `hinge` and `wrong` get the losses of each visited row before its step; null if not wanted.
struct PegasosVisits {
    const int64_t* order;
    int64_t count;
    const int64_t* codes;
    const double* weights;
    const double* factors;  // of the classes
    double* hinge;
    double* wrong;
};

// Makes steps on the rows of a table. Returns false, and makes no step, if a visited row of a CSR table has indices out
// of range.
bool pegasos_steps(const LinearTable& table, const PegasosState& state, const PegasosRule& rule,
                   const PegasosVisits& visits);

}  // namespace mercer

// One machine of a batch, as input of the solvers that begin in single precision.
#pragma once

#include <cstdint>

#include "gram/dispatch.hpp"

namespace mercer {

// The variables of a machine are the rows of one or two parts of the data, one after the other. Machines share parts,
// so the Gram matrix of a part may be known already.
struct MachinePart {
    int64_t size;
    double* shared;  // Gram matrix of the part, or null if it is not known
};

struct MachineProblem {
    TileRequest kernel;  // request for the Gram matrix of the machine's rows
    MachinePart parts[2];
    const double *linear, *lower, *upper;
    const double* start;  // a feasible point; it defines the sum if `grouped`
    bool grouped;
    double largest;  // largest |k(x, x)|
    double* beta;    // a feasible point on entry
    double* values;

    int64_t size() const { return kernel.left.count; }
};

struct MachineLimits {
    double tol;
    int64_t max_iter;               // -1: no limit
    double value_work;              // cost of a kernel value, in units of a step's work on one variable
    bool (*stop)(void*) = nullptr;  // machine_in_single calls it from time to time; true stops it
    void* stop_context = nullptr;
};

struct MachineEnd {
    BlockEnd end;
    int64_t n_iter, n_values;
    int64_t newton_free = 0;  // machine_in_single: most free variables at the start of Newton steps
};

}  // namespace mercer

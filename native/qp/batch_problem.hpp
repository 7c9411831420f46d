// One machine of a batch, as those take it who begin in single precision.
#pragma once

#include <cstdint>

#include "kernels/dispatch.hpp"

namespace mercer {

// A machine's variables are the rows of one part of the data, or of two, one after the other. Matrices of parts with
// themselves may be there, for they are shared with other machines.
struct MachinePart {
    int64_t size;
    double* shared;  // or null
};

struct MachineProblem {
    TileRequest kernel;  // of the machine's rows, on both sides
    MachinePart parts[2];
    const double *linear, *lower, *upper;
    const double* start;  // feasible: it fixes the sum where `grouped`
    bool grouped;
    double largest;  // |k(x, x)|
    double* beta;    // feasible
    double* values;

    int64_t size() const { return kernel.left.count; }
};

struct MachineLimits {
    double tol;
    int64_t max_iter;               // -1: any
    double value_work;              // what a kernel value costs, in units of a step's work on one variable
    bool (*stop)(void*) = nullptr;  // asked now and then, by machine_in_single, whether to leave it at that
    void* stop_context = nullptr;
};

struct MachineEnd {
    BlockEnd end;
    int64_t n_iter, n_values;
    int64_t newton_free = 0;  // of machine_in_single: the most free variables that Newton steps began with
};

}  // namespace mercer

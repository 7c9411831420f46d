// One machine among many by working sets, whose matrices are in single precision until rounding takes over. The rows of
// who moves are kept, in double, so that gradients are true.
#pragma once

#include <cstdint>

#include "mercer/dispatch.hpp"

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
    bool (*stop)(void*) = nullptr;  // of a machine alone: asked now and then whether to leave it at that
    void* stop_context = nullptr;
};

struct MachineEnd {
    BlockEnd end;
    int64_t n_iter, n_values;
    int64_t newton_free = 0;  // of a machine alone: the most free variables that Newton steps began with
};

// Doubles for the matrix of a working set: of all variables in single precision, of seven tenths or 64 in double.
constexpr int64_t machine_set_room(int64_t size) {
    const int64_t half = size * padded(size) / 2;
    return half > 64 * 64 ? half : 64 * 64;
}

// Doubles that machine_rounds needs to work in, aligned to a line of the cache.
constexpr int64_t machine_room(int64_t size) { return size * padded(size) + machine_set_room(size); }

// On return `values` are K beta in double precision, from nothing that the rounds have left behind, and where the sum
// is fixed, that of beta is balanced.
MachineEnd machine_rounds(const Implementation& native, const MachineProblem& problem, const MachineLimits& limits,
                          double* workspace);

}  // namespace mercer

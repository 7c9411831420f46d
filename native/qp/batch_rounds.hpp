// One machine among many by working sets, whose matrices are in single precision until rounding takes over. The rows of
// who moves are kept, in double, so that gradients are true.
#pragma once

#include <cstdint>

#include "qp/batch_problem.hpp"

namespace mercer {

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

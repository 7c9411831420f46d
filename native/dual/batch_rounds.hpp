// One machine of a batch, solved by working sets. Their matrices are in single precision until rounding limits
// progress. Rows of variables that move are stored in double precision, so that gradients are true.
#pragma once

#include <cstdint>

#include "dual/batch_problem.hpp"

namespace mercer {

// Returns the size of the memory for the matrix of a working set, in doubles. The memory fits the matrix of all
// variables in single precision, or of seven tenths of them (at least 64) in double precision.
constexpr int64_t machine_set_room(int64_t size) {
    const int64_t half = size * padded(size) / 2;
    return half > 64 * 64 ? half : 64 * 64;
}

// Returns the size of the workspace of machine_rounds, in doubles. It must be aligned to a cache line.
constexpr int64_t machine_room(int64_t size) { return size * padded(size) + machine_set_room(size); }

// On return `values` are K beta in double precision, computed from the point alone. If the sum is fixed, the sum of
// beta has been balanced.
MachineEnd machine_rounds(const Implementation& native, const MachineProblem& problem, const MachineLimits& limits,
                          double* workspace);

}  // namespace mercer

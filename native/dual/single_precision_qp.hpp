// Solves a machine whose matrix in double precision would be too slow. The whole matrix is in single precision; steps
// begin and usually end on it. The true decision values are computed by tiles in double precision.
#pragma once

#include <cstdint>

#include "dual/batch_problem.hpp"

namespace mercer {

// Returns the doubles of workspace that machine_in_single needs, aligned to a cache line.
constexpr int64_t machine_single_room(int64_t size) { return size * padded(size) / 2; }

// Shared matrices of parts are not used. On return `values` are K beta in double precision, computed from the point
// alone; if the sum is fixed, the sum of beta has been balanced. The reported end is not based on these values:
// rounding may have left a violation above the tolerance. A problem that takes too much work ends with `limit`, at its
// starting point.
MachineEnd machine_in_single(const Implementation& native, const MachineProblem& problem, const MachineLimits& limits,
                             double* workspace);

}  // namespace mercer

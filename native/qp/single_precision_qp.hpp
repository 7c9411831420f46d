// A machine alone, of more variables than a matrix in double precision pays for: its whole matrix in single precision,
// on which steps begin and, as a rule, end, and its true decision values by tiles.
#pragma once

#include <cstdint>

#include "qp/batch_problem.hpp"

namespace mercer {

// Doubles that machine_in_single needs to work in, aligned to a line of the cache.
constexpr int64_t machine_single_room(int64_t size) { return size * padded(size) / 2; }

// What parts share is not used: all values are its own. On return `values` are K beta in double precision, from the
// point alone, and where the sum is fixed, that of beta is balanced. The end says nothing of these: rounding may have
// left more of a violation than was asked for. What proves too hard ends with `limit`, at the point where it began.
MachineEnd machine_in_single(const Implementation& native, const MachineProblem& problem, const MachineLimits& limits,
                             double* workspace);

}  // namespace mercer

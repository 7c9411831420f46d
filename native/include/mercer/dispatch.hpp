// Chooses, once per call, the functions compiled for the best instruction set that this machine has.
#pragma once

#include "mercer/block_problem.hpp"
#include "mercer/tiles.hpp"

namespace mercer {

struct Implementation {
    const char* name;  // "avx512", "avx2" or "baseline"
    BlockFunction block;
    MatvecFunction matvec;
    BlockResult (*pair_steps)(const BlockProblem&, double tol, int64_t max_iter);
    BlockResult (*newton_steps)(const BlockProblem&, double tol, int64_t max_iter);
};

// The implementation of that name, or null where this machine or this build has none.
const Implementation* find_implementation(const char* name);

const Implementation& best_implementation();

}  // namespace mercer

// A quadratic programme on a matrix that is all in memory: rounds of working sets, each solved as a block.
#pragma once

#include <cstdint>

#include "kernels/dispatch.hpp"

namespace mercer {

template <class Kept>
struct HeldProblem {
    const Kept* matrix;  // square and symmetric
    int64_t stride, n_rows;
    int64_t size;
    const int64_t* rows;  // of the matrix that variables belong to
    const double *linear, *lower, *upper;
    const double* ridge;    // added to the diagonal; may be null
    const int64_t* groups;  // of each variable; null where there is no equality constraint
    int64_t n_groups;
    double* beta;    // feasible
    double* values;  // K beta, at every row of the matrix, those without a variable among them
    int8_t* seen;    // of each variable: 0, or 1 where a working set has held it, or 2 where the last one has
    bool (*stop)(void*);
    void* stop_context;
};

struct HeldLimits {
    double tol;  // of the violation
    int64_t max_iter;
    double max_work;    // kernel values looked at, about, before the caller is asked whether to go on
    int64_t max_block;  // variables of a working set
    bool precise;       // whether blocks are in double precision
    bool drags;         // whether pair steps have given way to Newton steps
};

struct HeldResult {
    BlockEnd end;
    int64_t n_iter;
    double violation;
    bool precise;  // whether they had to be, in the end
    bool drags;
    int64_t wanted;  // bytes to work in that the next round needs
    double work;     // kernel values looked at, about
};

// On return `values` are those of `beta`, added up in double precision whatever the matrix is in.
template <class Kept>
HeldResult held_rounds(const Implementation& native, const HeldProblem<Kept>& problem, const HeldLimits& limits,
                       void* workspace, int64_t room);

}  // namespace mercer

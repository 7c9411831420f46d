// Solves a quadratic programme whose whole matrix is in memory, by rounds of working sets; each round solves a block.
#pragma once

#include <cstdint>

#include "gram/dispatch.hpp"

namespace mercer {

template <class Stored>
struct InMemoryProblem {
    const Stored* matrix;  // square and symmetric
    int64_t stride, n_rows;
    int64_t size;
    const int64_t* rows;  // row of the matrix of each variable
    const double *linear, *lower, *upper;
    const double* ridge;    // added to the diagonal; may be null
    const int64_t* groups;  // group of each variable; null without equality constraints
    int64_t n_groups;
    double* beta;    // feasible
    double* values;  // K beta at every row of the matrix, also at rows without a variable
    int8_t* seen;    // for each variable 0, 1 if some working set had it, or 2 if the last one had it
    bool (*stop)(void*);
    void* stop_context;
};

struct InMemoryLimits {
    double tol;  // largest violation of an optimum
    int64_t max_iter;
    double max_work;    // approximate number of kernel values read before the call returns
    int64_t max_block;  // largest number of variables of a working set
    bool precise;       // whether blocks are in double precision
    bool smo_slow;      // whether SMO has given way to Newton steps
};

struct InMemoryResult {
    BlockEnd end;
    int64_t n_iter;
    double violation;
    bool precise;  // whether blocks were in double precision at the end
    bool smo_slow;
    int64_t wanted;  // bytes of workspace that the next round needs
    double work;     // approximate number of kernel values read
};

// On return `values` are K beta. They are summed in double precision, even if the matrix is in single precision.
template <class Stored>
InMemoryResult in_memory_rounds(const Implementation& native, const InMemoryProblem<Stored>& problem,
                                const InMemoryLimits& limits, void* workspace, int64_t room);

}  // namespace mercer

// Small machines, each solved from its kernel values to its optimality conditions by one thread in one go.
#pragma once

#include "kernels/dispatch.hpp"
#include "qp/conditions.hpp"

namespace mercer {

// A machine's variables are the rows of one part of the data, or of two parts, one after the other: its linear terms,
// bounds and so on are elements offset .. offset + size - 1 of the batch's arrays.
struct Machine {
    int64_t offset, size;
    int64_t first, second;  // parts; second is -1 where there is just one
};

// Up to how many variables ...
struct MatrixSizes {
    int64_t exact;      // ... Newton steps go on to the limit of double precision
    int64_t in_double;  // ... the whole matrix is evaluated in double precision, and nothing else
    int64_t whole;      // ... in single, not less; beyond, machines are solved by working sets
};

struct MachineBatch {
    TileRequest kernel;  // of all rows with themselves, by as many threads as one machine may have
    const int64_t* rows;
    const int64_t* part_starts;  // n_parts + 1 offsets into rows
    int64_t n_parts;
    double* shared;    // the parts' own matrices, one after the other; null where each machine evaluates its own
    bool fill_shared;  // whether they are yet to be evaluated
    const Machine* machines;
    int64_t n_machines;
    const double* diagonal;  // of the matrix of all rows; may be null where all are solved in double precision
    const double *start, *linear, *lower, *upper;
    double *beta, *values;  // beta: a feasible point each; values: K beta at the solution
    bool grouped;           // whether the sum of each machine's beta is fixed
    double tol;
    int64_t max_iter;  // for each machine
    MatrixSizes sizes;
    double value_work;              // what a kernel value costs, in units of a step's work on one variable
    double work_limit;              // in such units: no machine is begun beyond it
    bool (*stop)(void*) = nullptr;  // where there is one machine: asked now and then whether to leave it at that
    void* stop_context = nullptr;
};

struct MachineResult {
    BlockEnd end;
    int64_t n_iter;
    int64_t n_values;  // kernel values evaluated, but for shared ones
    double seconds;
    double longest;  // of sqrt |k(x, x)|
    double spread;   // sum of |k(x, x)| beta^2: for rounding
    double largest;  // of |K beta|
    double multiplier;
    double primal;  // where the box says what decision values are charged
    Conditions conditions;
    int64_t newton_free = 0;  // the most free variables that Newton steps in single precision began with; else 0
};

// Doubles that solve_machines needs to work in; sizes are the batch's.
int64_t machine_workspace(const Machine* machines, int64_t n_machines, const MatrixSizes& sizes, int n_threads);

// Solves the first machines, as many as the work limit allows and one at least, and returns how many. Results depend on
// neither the number of threads nor the order in which machines are solved.
int64_t solve_machines(const Implementation& native, const MachineBatch& batch, double* workspace, int n_threads,
                       MachineResult* results);

}  // namespace mercer

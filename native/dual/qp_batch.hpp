// Small problems, each solved by one thread in one call, from its kernel values to its optimality conditions.
#pragma once

#include "dual/conditions.hpp"
#include "gram/dispatch.hpp"

namespace mercer {

// A machine's variables are the rows of one part of the data, or of two parts, one after the other: its linear terms,
// bounds and so on are elements offset .. offset + size - 1 of the batch's arrays.
struct Machine {
    int64_t offset, size;
    int64_t first, second;  // parts of the data; second is -1 for a machine on one part
};

// Limits on the number of variables of a machine, which select its solver.
struct MatrixSizes {
    int64_t exact;        // up to this size, Newton steps continue to the limit of double precision
    int64_t in_double;    // up to this size, the whole matrix is evaluated in double precision
    int64_t full_matrix;  // up to this size, the whole matrix is evaluated in single precision; above, working sets are
                          // used
};

struct MachineBatch {
    TileRequest kernel;  // kernel of all rows with all rows, and the threads of one machine
    const int64_t* rows;
    const int64_t* part_starts;  // n_parts + 1 offsets into rows
    int64_t n_parts;
    // Concatenated matrices of each part with itself; null if each machine evaluates its own matrix.
    double* shared;
    bool fill_shared;  // whether these matrices must still be evaluated
    const Machine* machines;
    int64_t n_machines;
    // The diagonal of the matrix of all rows; may be null if all machines are solved in double precision.
    const double* diagonal;
    const double *start, *linear, *lower, *upper;
    double *beta, *values;  // beta: a feasible point each; values: K beta at the solution
    bool grouped;           // whether the sum of each machine's beta is fixed
    double tol;
    int64_t max_iter;  // for each machine
    MatrixSizes sizes;
    double value_work;              // cost of a kernel value, in units of a step's work on one variable
    double work_limit;              // in the same units; no machine is started after it is exceeded
    bool (*stop)(void*) = nullptr;  // with one machine: called from time to time; true stops the solver
    void* stop_context = nullptr;
};

struct MachineResult {
    BlockEnd end;
    int64_t n_iter;
    int64_t n_values;  // kernel values evaluated, without shared ones
    double seconds;
    double longest;  // largest sqrt |k(x, x)|
    double spread;   // sum of |k(x, x)| beta^2, for the rounding estimate
    double largest;  // largest |K beta|
    double multiplier;
    double primal;  // valid if the loss follows from the box
    Conditions conditions;
    int64_t newton_free = 0;  // most free variables at the start of Newton steps in single precision; 0 without them
};

// Returns the number of doubles of workspace that solve_machines needs; `sizes` are those of the batch.
int64_t machine_workspace(const Machine* machines, int64_t n_machines, const MatrixSizes& sizes, int n_threads);

// Solves machines from the first on, at least one and until the work limit is reached, and returns their number.
// Results do not depend on the number of threads or the order of the machines.
int64_t solve_machines(const Implementation& native, const MachineBatch& batch, double* workspace, int n_threads,
                       MachineResult* results);

}  // namespace mercer

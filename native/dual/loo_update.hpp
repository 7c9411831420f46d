// The solution of a quadratic dual without one of its variables, from the solution with all of them.
#pragma once

#include <cstdint>
#include <vector>

namespace mercer {

// Places 0 .. n_basic - 1 are basic variables: their gradient is given, and beta depends on it. At places n_basic ..
// n_places - 1 beta is given, and the gradient depends on it. A row has the derivatives of all dependent numbers with
// respect to one given number. In rows of nonbasic variables, the elements of basic variables have the opposite sign.
struct LeaveOutBatch {
    int64_t n_basic, n_places;
    const double* values;  // beta of basic variables, gradient of the others
    const double *point, *lower, *upper;
    const double* rows;
    const int64_t* slots;  // index of the row of a place; -1 if the row is not known yet

    int64_t count;           // number of variables, each removed alone
    const double* own_rows;  // rows of the removed variables, and the index of each in `own_slots`
    const int64_t* own_slots;
    const double* corner;  // derivative of a variable's own dependent number by its given number
    const double* gradient;
    const int64_t *main, *partner;  // places of the variable and of the second variable of its row, or -1
    const double* amount;           // change of beta that makes it 0
    // total: the change of the group's total. drift and own_drift: the changes of all values, and of the removed
    // variable's gradient, per unit of it.
    const double *drift, *own_drift, *total;

    double size;  // a typical k(x, x)
    double tol_beta, tol_gradient;
};

enum class LeaveOutEnd : int64_t {
    left_out,
    needs_rows,  // rows of the places in `needs` are missing
    not_found,
    loose,  // removed, but no variable is free
};

struct LeaveOutResult {
    LeaveOutEnd end = LeaveOutEnd::not_found;
    double gradient = 0.0;  // gradient of the removed row
    int64_t n_pivots = 0;
    double squared = 0.0;    // squared length of the change of all nonbasic variables
    double gradients = 0.0;  // sum of the squared gradients of basic variables that reached a bound
    double violation = 0.0;  // largest remaining violation
    std::vector<int64_t> needs;
};

// The results do not depend on the number of threads.
void leave_out(const LeaveOutBatch& batch, LeaveOutResult* results, int n_threads);

}  // namespace mercer

// The solution of a quadratic dual without one of its variables, from the solution with all of them.
#pragma once

#include <cstdint>
#include <vector>

namespace mercer {

// Places 0 .. n_basic - 1 are basic variables: their gradient is chosen freely, beta follows; it is the other way round
// at places n_basic .. n_places - 1. A row holds what a unit of the one changes of the other, for all places; the part
// of another variable's row that is about basic ones has its sign turned.
struct LeaveOutBatch {
    int64_t n_basic, n_places;
    const double* values;  // beta where basic, else the gradient
    const double *point, *lower, *upper;
    const double* rows;
    const int64_t* slots;  // which row is that of a place; -1: none is known yet

    int64_t count;      // of variables, each to be left out by itself
    const double* own;  // rows, and which of them is that of each
    const int64_t* own_slots;
    const double* corner;  // what their own beta or gradient changes of the other
    const double* gradient;
    const int64_t *main, *partner;            // the places of the variable and of the other one of its row, -1 for none
    const double* amount;                     // what is added to beta until it is 0
    const double *drift, *own_drift, *total;  // change of all values, and of the gradient, with the group's total

    double size;  // a typical k(x, x)
    double tol_beta, tol_gradient;
};

enum class LeaveOutEnd : int64_t {
    left_out,
    needs_rows,  // of the places in `needs`
    not_found,
    loose,  // left out, but no variable is inside its box
};

struct LeaveOutResult {
    LeaveOutEnd end = LeaveOutEnd::not_found;
    double gradient = 0.0;  // at the variable left out
    int64_t n_pivots = 0;
    double squared = 0.0;    // length of the move of all that is not basic
    double gradients = 0.0;  // sum of the squared gradients of basic variables that left
    double violation = 0.0;  // largest that is left
    std::vector<int64_t> needs;
};

// The results do not depend on the number of threads.
void leave_out(const LeaveOutBatch& batch, LeaveOutResult* results, int n_threads);

}  // namespace mercer

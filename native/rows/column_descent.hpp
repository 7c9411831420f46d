// Coordinate descent on the columns of a table, for the quadratic model of Newton's method with the l1 penalty.
#pragma once

#include <cstdint>

#include "rows/table.hpp"

namespace mercer {

// Minimises over u, starting at u = w,
//
//     sum_i h_i (s_i)^2 / 2 - <pull, u - w> + sum_j (penalty_j |u_j| + weight_j (u_j - centre_j)^2 / 2),
//
// where s = X (u - w). The table is the transpose of X without the constant: its rows are the columns of X.
struct ColumnModel {
    LinearTable columns;      // constant: that of X; its column follows the others
    const double* curvature;  // h, of each row of X
    const double* pull;
    const double* penalty;
    const double* weight;
    const double* centre;
    double* u;
    double* change;         // s, of each row of X
    const int64_t* chosen;  // columns that may move
    int64_t n_chosen;
    uint64_t seed;  // of the order of the columns
};

struct ColumnReport {
    int64_t n_passes;  // passes over the chosen columns
    double violation;  // sum of the violations of optimality in the last of them, each before its step
    bool in_range;     // false if a CSR table has indices out of range; nothing is done then
};

// Makes passes until the sum of the violations is at most `target`, but at most `most`. Between two passes over all
// chosen columns, it makes passes over those whose u is not 0.
ColumnReport descend_columns(const ColumnModel& model, double target, int64_t most);

}  // namespace mercer

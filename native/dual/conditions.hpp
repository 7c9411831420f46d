// Objectives and optimality conditions of a point of a quadratic programme, from the true K beta.
#pragma once

#include <cstdint>

namespace mercer {

struct Point {
    int64_t size;
    const double *beta, *values;  // values = K beta
    const double *linear, *lower, *upper;
    const double* start;    // feasible: it fixes the sum of every group
    const double* ridge;    // added to the diagonal of K; may be null
    const int64_t* groups;  // group of each variable; null with one group or without groups
    int64_t n_groups;
};

struct Conditions {
    double quadratic;      // beta' K beta
    double linear;         // (2 linear + ridge beta)' beta: the dual objective is -1/2 (quadratic + linear)
    double mass;           // sum of |beta|
    double infeasibility;  // largest distance of beta from its box, or of a group's sum from its total
    double excess;         // largest M - m of all groups; negative if the conditions hold strictly
    int64_t n_free, n_bounded;
};

// Fills `multipliers` (n_groups) with the mean gradient of the group's free variables, or, without free variables, with
// the middle of the interval that the conditions allow.
Conditions find_conditions(const Point& point, double* multipliers);

// A point whose gradient has an error of at most `margin` times `doubt`.
struct DoubtfulPoint {
    int64_t size;
    const double *beta, *lower, *upper, *gradient, *doubt;
    double margin;
    const int64_t* groups;  // the same as in a Point
    int64_t n_groups;
};

// Screening: sets, for each variable, whether it is at a bound and on the right side of its group's multiplier for
// every gradient within the error bound. With free variables it is compared with their mean, because m is at most this
// mean and M at least. Without free variables it is compared with the best gradients of variables that can move the
// other way, and with the interval of the multiplier between them.
void find_screened(const DoubtfulPoint& point, bool* screened);

// Returns the sum of numbers, computed in twice the precision of double and then rounded.
double find_sum(int64_t size, const double* values);

// Restores the sum of beta over a single group after rounding over many steps. The smallest free variable whose
// distance to its bound is enough takes the surplus. If no variable can take it, and the distances of all free
// variables together just equal the surplus, all of them go to their bounds. If all free variables differ from their
// bounds by rounding only, they go to their bounds too; a variable that only seems free would determine the multiplier,
// which is otherwise the middle of an interval.
//
// This preserves an optimum: a variable at its bound has fewer conditions than a free one, and the change is at most
// the surplus and 8 eps times the sum of sizes. The violation grows by at most twice that times the largest kernel
// value, ridge included.
void balance(int64_t size, double* beta, double total, const double* lower, const double* upper);

// Writes the point within a box, with the given sum, that minimises gradient' beta. All variables but one are at
// bounds. The lower bounds must be finite; with equal gradients the first variable increases first.
void find_vertex(int64_t size, const double* gradient, const double* lower, const double* upper, double total,
                 double* point);

}  // namespace mercer

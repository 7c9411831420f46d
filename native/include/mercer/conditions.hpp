// What a point of a quadratic programme is worth: objectives and optimality conditions, from the true K beta.
#pragma once

#include <cstdint>

namespace mercer {

struct Point {
    int64_t size;
    const double *beta, *values;  // values = K beta
    const double *linear, *lower, *upper;
    const double* start;    // feasible: it fixes the sum of every group
    const double* ridge;    // added to the diagonal of K; may be null
    const int64_t* groups;  // of each variable; null where all are in one group, or there is none
    int64_t n_groups;
};

struct Conditions {
    double quadratic;      // beta' K beta
    double linear;         // (2 linear + ridge beta)' beta: the dual objective is -1/2 (quadratic + linear)
    double mass;           // sum of |beta|
    double infeasibility;  // how far beta is outside its box, or a group's sum off its total
    double excess;         // largest of M - m over the groups: negative where the conditions hold with room to spare
    int64_t n_free, n_bounded;
};

// Fills `multipliers` (n_groups): the mean gradient of a group's free variables, or else the middle of the interval
// that the conditions leave.
Conditions find_conditions(const Point& point, double* multipliers);

// The sum of numbers, in twice the precision of double but for the last rounding.
double find_sum(int64_t size, const double* values);

// By how much the sum of beta over a single group exceeds that of start, all additions exact but the last.
double find_surplus(int64_t size, const double* beta, const double* start);

// Puts the sum right where rounding over many steps has made it drift: the free variable of smallest size with room for
// the surplus takes it. Without such a variable beta stays as it is.
void balance(int64_t size, double* beta, const double* start, const double* lower, const double* upper);

}  // namespace mercer

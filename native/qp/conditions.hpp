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

// A point whose gradient may be off by `margin` times `doubt`.
struct DoubtfulPoint {
    int64_t size;
    const double *beta, *lower, *upper, *gradient, *doubt;
    double margin;
    const int64_t* groups;  // as of a Point
    int64_t n_groups;
};

// Says of each variable whether it is at a bound, and on the right side of its group's multiplier whatever the true
// gradient is: of the mean of those that can move both ways, for m is at most that and M at least; without any, of the
// best gradients of those that can move the other way, and of where the multiplier may be between these.
void find_settled(const DoubtfulPoint& point, bool* settled);

// The sum of numbers, in twice the precision of double but for the last rounding.
double find_sum(int64_t size, const double* values);

// Puts the sum of beta over a single group right, where rounding over many steps has made it drift: the free variable
// of smallest size with room for the surplus takes it, up to its bound. Where none has and the room of all free ones
// just makes the surplus, they go to their bounds; and so do those that rounding alone still keeps from there, where no
// others are free: one that seems to be free settles the multiplier alone, which is the middle of an interval without
// it.
//
// That spoils no optimum: a variable at its bound leaves fewer conditions than a free one, and gradients follow what
// has moved, which is the surplus and 8 eps of the sum of sizes at most. The excess grows by no more than twice that
// times the largest kernel value, ridge included; decision values are off by as much because sums of coefficients are.
void balance(int64_t size, double* beta, double total, const double* lower, const double* upper);

// Writes the point of this sum within a box that minimises gradient' beta: at bounds, but for one variable. The box has
// a finite lower end; of equal gradients the first goes up first.
void find_vertex(int64_t size, const double* gradient, const double* lower, const double* upper, double total,
                 double* point);

}  // namespace mercer

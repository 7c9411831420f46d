// Which variables the next block holds.
#pragma once

#include <cstdint>
#include <vector>

namespace mercer {

struct Variables {
    int64_t size;
    const double *beta, *gradient, *lower, *upper;
    const int64_t* groups;  // group of each variable; null where there is no equality constraint
    int64_t n_groups;
};

// Largest KKT violation over all variables.
double largest_violation(const Variables&);

// At most `limit` variables, sorted by group and then by index: the free ones of `previous` (up to half), then
// alternately the worst violators among those that can grow and those that can shrink. Ties go to the smaller index.
std::vector<int64_t> select_working_set(const Variables&, const int64_t* previous, int64_t n_previous, int64_t limit);

}  // namespace mercer

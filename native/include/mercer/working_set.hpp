// Which variables the next block holds, and which are left out for a while.
#pragma once

#include <cstdint>
#include <vector>

namespace mercer {

struct Variables {
    int64_t size;
    const double *beta, *gradient, *lower, *upper;
    const int64_t* groups;  // group of each variable; null where there is no equality constraint
    int64_t n_groups;
    const int64_t* active;  // the variables that count; null for all of them
    int64_t n_active;
};

struct Survey {
    double violation;           // largest KKT violation
    int64_t n_free;             // variables strictly inside their box
    std::vector<int64_t> kept;  // active variables that are free or not beyond all others on the right side
};

Survey survey(const Variables&);

// At most `limit` active variables, sorted by group and then by index: the free ones of `previous` (up to half); then,
// except for two places, violators that have not been `seen`, from all over the table; then alternately the worst
// violators among those that can grow and those that can shrink, of either for half of the places that are left, and so
// on while there are more. Ties go to the smaller index.
std::vector<int64_t> select_working_set(const Variables&, const bool* seen, const int64_t* previous, int64_t n_previous,
                                        int64_t limit);

}  // namespace mercer

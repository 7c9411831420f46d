// Working-set selection, and shrinking.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace mercer {

struct Variables {
    int64_t size;
    const double *beta, *gradient, *lower, *upper;
    const int64_t* groups;  // group of each variable; null without equality constraints
    int64_t n_groups;
    const int64_t* active;  // the active variables; null for all variables
    int64_t n_active;
};

// A survey of the active variables: violation, shrinking and working-set selection. The arrays, except the gradient,
// must not change until the next survey, which reuses the same memory. The mean of the free gradients of a single group
// is summed in eight lanes, in the same order on every processor. Results are meaningless if a gradient is NaN.
class Survey {
  public:
    void measure(const Variables& variables);

    int64_t size() const { return v_.size; }
    const Variables& variables() const { return v_; }
    double violation() const { return violation_; }  // the largest KKT violation
    int64_t n_free() const { return n_free_; }       // variables strictly inside their box

    // Returns the number of active variables that must not be shrunken: free variables, and variables at a bound that
    // violate or are within an eighth of the violation of violating.
    int64_t n_remaining() const;
    std::vector<int64_t> remaining() const;
    std::vector<int64_t> dropped() const;  // the active variables that can be shrunken

    // Selects at most `limit` active variables, sorted by group and then by index. It takes the free variables of
    // `previous` (up to half); then violators that have not been `seen`, from the whole table, except for two places;
    // then the worst violators that can grow and that can shrink, half of the remaining places for each, until no
    // violator is left. Ties go to the smaller index.
    std::vector<int64_t> select(const bool* seen, const int64_t* previous, int64_t n_previous, int64_t limit);

  private:
    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

    struct Level {
        double least = kInfinity;  // m: smallest gradient of the variables that can grow
        double most = -kInfinity;  // M: largest gradient of the variables that can shrink
        double sum = 0.0;          // sum of the gradients of free variables
        int64_t n_free = 0;
        double middle = 0.0;  // mean gradient of free variables, or the middle of m and M without free variables
        // Thresholds of shrinking. A variable that can grow stays active up to the gradient `highest`; a variable that
        // can shrink stays active from `lowest` on.
        double highest = -kInfinity, lowest = kInfinity;
    };

    class Chosen;

    void note(int64_t first, int64_t last);
    void measure_one();
    void measure_each();
    int64_t at(int64_t place) const { return v_.active == nullptr ? place : v_.active[place]; }

    // Calls visit(level_of). A loop over places that calls level_of is also compiled for a single level.
    template <class Visit>
    auto with_levels(Visit visit) const;
    template <class Visit>
    auto with_keeping(Visit visit) const;
    template <class Is>
    std::vector<int64_t> listed(int64_t count, Is is) const;

    Variables v_{};
    std::vector<Level> levels_;
    // Gradients of variables that can grow (infinity for the others), and of variables that can shrink (-infinity for
    // the others).
    std::vector<double> growing_, shrinking_;
    std::vector<int64_t> new_;  // places of variables that have not been in a working set
    double violation_ = 0.0;
    int64_t n_free_ = 0;
};

// For problems with two variables a row, as in regression: removes each variable from `chosen` that is 0 while its
// partner is not 0. It violates less than its partner, because one of the two is 0 at the optimum, and has the same
// kernel values.
void leave_out_partners(std::vector<int64_t>& chosen, const Variables& variables, const int64_t* rows, int64_t n_rows);

}  // namespace mercer

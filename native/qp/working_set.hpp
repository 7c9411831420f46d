// Which variables the next block holds, and which are left out for a while.
#pragma once

#include <cstdint>
#include <limits>
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

// What one look at the active variables finds. Until the next look, which uses the same memory again, the arrays must
// be there and stay as they are; but for the gradient, which is noted. The mean of the free gradients of a single group
// is summed in eight lanes, in the same order on every machine. Gradients must be numbers: of others it says nothing
// true.
class Survey {
  public:
    void look(const Variables& variables);

    int64_t size() const { return v_.size; }
    const Variables& variables() const { return v_; }
    double violation() const { return violation_; }  // the largest KKT violation
    int64_t n_free() const { return n_free_; }       // variables strictly inside their box

    // Active variables that are free, or that can move and are not beyond all others on the right side by more than an
    // eighth of the violation.
    int64_t n_kept() const;
    std::vector<int64_t> kept() const;
    std::vector<int64_t> dropped() const;  // all other active ones

    // At most `limit` active variables, sorted by group and then by index: the free ones of `previous` (up to half);
    // then, except for two places, violators that have not been `seen`, from all over the table; then alternately the
    // worst violators among those that can grow and those that can shrink, of either for half of the places that are
    // left, and so on while there are more. Ties go to the smaller index.
    std::vector<int64_t> select(const bool* seen, const int64_t* previous, int64_t n_previous, int64_t limit);

  private:
    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

    struct Level {
        double least = kInfinity;  // m: smallest gradient among the variables that can grow
        double most = -kInfinity;  // M: largest among those that can shrink
        double sum = 0.0;          // of the gradients of free variables
        int64_t n_free = 0;
        double middle = 0.0;                              // their mean; or else between m and M
        double highest = -kInfinity, lowest = kInfinity;  // that who can grow and who can shrink is worth keeping at
    };

    class Chosen;

    void note(int64_t first, int64_t last);
    void measure_one();
    void measure_each();
    int64_t at(int64_t place) const { return v_.active == nullptr ? place : v_.active[place]; }

    // visit(level_of): a loop over places that asks it for their levels is compiled for a single level, too.
    template <class Visit>
    auto with_levels(Visit visit) const;
    template <class Visit>
    auto with_keeping(Visit visit) const;
    template <class Is>
    std::vector<int64_t> listed(int64_t count, Is is) const;

    Variables v_{};
    std::vector<Level> levels_;
    // Gradients of the variables that can grow, or else infinity; of those that can shrink, or else -infinity.
    std::vector<double> growing_, shrinking_;
    std::vector<int64_t> new_;  // places that have not been seen
    double violation_ = 0.0;
    int64_t n_free_ = 0;
};

// Where rows have two variables, one of either side, as in regression: takes out of `chosen` each that is 0 while its
// partner is not. It violates less, for one of the two is 0 in the end, and has the same kernel values.
void leave_out_partners(std::vector<int64_t>& chosen, const Variables& variables, const int64_t* rows, int64_t n_rows);

}  // namespace mercer

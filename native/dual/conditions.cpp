#include "dual/conditions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace mercer {
namespace {

// Returns the larger number, or NaN if one of them is NaN.
double larger(double a, double b) { return a > b ? a : b > a || b != b ? b : a; }

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Share of the sum of sizes by which a sum of bounds may differ from its total because of rounding. Each bound is a
// product of C, a weight and a class weight; these three numbers and both products are each rounded by eps / 2.
constexpr double kRounded = 4.0 * std::numeric_limits<double>::epsilon();
// At most this share of a box's width counts as rounding error, so that narrow boxes have an interior.
constexpr double kShareOfBox = 1e-6;

// A sum in twice the precision of double. The rounding error of each addition is itself a double and is added up
// separately [Knuth, TAOCP 2, 4.2.2, theorem B].
class TwofoldSum {
  public:
    void add(double term) {
        const double total = high_ + term, part = total - high_;
        low_ += (high_ - (total - part)) + (term - part);
        high_ = total;
    }
    double value() const { return high_ + low_; }

  private:
    double high_ = 0.0, low_ = 0.0;
};

// Returns the middle of the best gradients of both sides.
double middle(double least, double most) {
    if (std::isinf(least)) return most;  // no variable can grow, so that the other side decides
    return std::isinf(most) ? least : 0.5 * (least + most);
}

struct Group {
    double least = kInfinity;  // m: smallest gradient of the variables that can grow
    double most = -kInfinity;  // M: largest gradient of the variables that can shrink
    TwofoldSum free_gradients, surplus;
    int64_t n_free = 0;

    double multiplier() const {
        return n_free > 0 ? free_gradients.value() / static_cast<double>(n_free) : middle(least, most);
    }
};

// Bounds of a group's multiplier, from gradients that are known up to an error bound.
class Levels {
  public:
    void see(bool can_grow, bool can_shrink, double low, double high) {
        if (can_grow) lowest_ = std::min(lowest_, low), above_ = std::min(above_, high);
        if (can_shrink) highest_ = std::max(highest_, high), below_ = std::max(below_, low);
        if (can_grow && can_shrink) low_sum_.add(low), high_sum_.add(high), ++n_free_;
        unknown_ |= !std::isfinite(low) || !std::isfinite(high);
    }

    // Returns the interval of the multiplier. A gradient inside it may be above or below the true one.
    std::pair<double, double> ends() const {
        if (unknown_) return {-kInfinity, kInfinity};
        const auto n_free = static_cast<double>(n_free_);
        if (n_free_ > 0) return {low_sum_.value() / n_free, high_sum_.value() / n_free};
        return std::minmax({middle(lowest_, below_), middle(above_, highest_), above_, below_});
    }

  private:
    double above_ = kInfinity, lowest_ = kInfinity;  // for variables that can grow: upper and lower bound of the true m
    // Variables that can shrink: lower and upper bound of the true M.
    double below_ = -kInfinity, highest_ = -kInfinity;
    TwofoldSum low_sum_, high_sum_;
    int64_t n_free_ = 0;
    bool unknown_ = false;
};

}  // namespace

void find_screened(const DoubtfulPoint& point, bool* screened) {
    struct Ends {
        bool can_grow, can_shrink;
        double low, high;
    };
    const auto at = [&](int64_t u) {
        const double beta = point.beta[u], gradient = point.gradient[u], off = point.margin * point.doubt[u];
        const bool can_grow = beta < point.upper[u];
        const bool can_shrink = beta > point.lower[u];
        return Ends{can_grow, can_shrink, gradient - off, gradient + off};
    };
    const auto group_of = [&](int64_t u) {
        return point.groups == nullptr ? std::size_t{0} : static_cast<std::size_t>(point.groups[u]);
    };
    std::vector<std::pair<double, double>> ends{{0.0, 0.0}};  // without groups the multiplier is 0
    if (point.n_groups > 0) {
        std::vector<Levels> levels(static_cast<std::size_t>(point.n_groups));
        for (int64_t u = 0; u < point.size; ++u) {
            const auto [can_grow, can_shrink, low, high] = at(u);
            levels[group_of(u)].see(can_grow, can_shrink, low, high);
        }
        ends.clear();
        for (const Levels& level : levels) ends.push_back(level.ends());
    }
    for (int64_t u = 0; u < point.size; ++u) {
        const auto [can_grow, can_shrink, low, high] = at(u);
        const auto [least, most] = ends[group_of(u)];
        screened[u] = (!can_shrink && low > most) || (!can_grow && high < least);
    }
}

Conditions find_conditions(const Point& point, double* multipliers) {
    const bool grouped = point.n_groups > 0;
    std::vector<Group> groups(grouped ? static_cast<std::size_t>(point.n_groups) : 1);
    Conditions measured{0.0, 0.0, 0.0, 0.0, -kInfinity, 0, 0};
    TwofoldSum quadratic, linear;
    for (int64_t u = 0; u < point.size; ++u) {
        const double beta = point.beta[u], lower = point.lower[u], upper = point.upper[u];
        const double offset = point.linear[u] + (point.ridge == nullptr ? 0.0 : point.ridge[u] * beta);
        const double gradient = point.values[u] + offset;
        quadratic.add(beta * point.values[u]);
        linear.add(beta * (point.linear[u] + offset));
        measured.mass += std::fabs(beta);
        measured.infeasibility = larger(measured.infeasibility, std::max(lower - beta, beta - upper));
        const bool can_grow = beta<upper, can_shrink = beta> lower;
        Group& group = groups[point.groups == nullptr ? 0 : static_cast<std::size_t>(point.groups[u])];
        if (can_grow) group.least = std::min(group.least, gradient);
        if (can_shrink) group.most = std::max(group.most, gradient);
        if (can_grow && can_shrink) {
            group.free_gradients.add(gradient);
            ++group.n_free;
            if (beta != 0.0) ++measured.n_free;  // a support vector
        } else if (beta != 0.0) {
            ++measured.n_bounded;
        }
        group.surplus.add(beta);
        group.surplus.add(-point.start[u]);
    }
    measured.quadratic = quadratic.value();
    measured.linear = linear.value();
    for (std::size_t g = 0; g < groups.size(); ++g) {
        const Group& group = groups[g];
        if (!grouped) {  // without groups the multiplier is 0
            measured.excess = std::max(-group.least, group.most);
        } else {
            multipliers[g] = group.multiplier();
            measured.excess = std::max(measured.excess, group.most - group.least);
            measured.infeasibility = larger(measured.infeasibility, std::fabs(group.surplus.value()));
        }
    }
    return measured;
}

double find_sum(int64_t size, const double* values) {
    TwofoldSum sum;
    for (int64_t u = 0; u < size; ++u) sum.add(values[u]);
    return sum.value();
}

void balance(int64_t size, double* beta, double total, const double* lower, const double* upper) {
    TwofoldSum sum;
    double mass = 0.0;
    for (int64_t u = 0; u < size; ++u) sum.add(beta[u]), mass += std::fabs(beta[u]);
    sum.add(-total);
    const double surplus = sum.value(), rounding = kRounded * mass;
    const auto is_free = [&](int64_t u) { return lower[u] < beta[u] && beta[u] < upper[u]; };
    if (surplus != 0.0) {
        const double* ends = surplus > 0.0 ? lower : upper;
        double room = 0.0;
        int64_t least = -1;
        for (int64_t u = 0; u < size; ++u) {
            if (!is_free(u)) continue;
            room += std::fabs(beta[u] - ends[u]);
            const double moved = beta[u] - surplus;
            const bool fits = lower[u] <= moved && moved <= upper[u];
            if (fits && (least < 0 || std::fabs(beta[u]) < std::fabs(beta[least]))) least = u;
        }
        if (least >= 0) {
            beta[least] -= surplus;
        } else if (std::fabs(room - std::fabs(surplus)) <= rounding) {
            for (int64_t u = 0; u < size; ++u)
                if (is_free(u)) beta[u] = ends[u];
        }
    }
    double way = 0.0;
    for (int64_t u = 0; u < size; ++u) {
        if (!is_free(u)) continue;
        const double gap = std::min(beta[u] - lower[u], upper[u] - beta[u]);
        way += gap;
        if (gap > kShareOfBox * (upper[u] - lower[u]) || way > rounding) return;
    }
    for (int64_t u = 0; u < size; ++u)
        if (is_free(u)) beta[u] = beta[u] - lower[u] < upper[u] - beta[u] ? lower[u] : upper[u];
}

void find_vertex(int64_t size, const double* gradient, const double* lower, const double* upper, double total,
                 double* point) {
    struct Place {
        double gradient;
        int64_t index;
        bool operator<(const Place& other) const {
            return gradient != other.gradient ? gradient < other.gradient : index < other.index;
        }
    };
    if (size == 0) return;
    std::vector<Place> places;
    places.reserve(static_cast<std::size_t>(size));
    long double left = total;  // long double, so that rounding leaves no other variable between bounds
    for (int64_t u = 0; u < size; ++u) {
        places.push_back({std::isnan(gradient[u]) ? std::numeric_limits<double>::infinity() : gradient[u], u});
        left -= lower[u];
        point[u] = lower[u];
    }
    // Variables before `first` go to their upper bounds; variables from `last` on stay at their lower bounds.
    auto first = places.begin(), last = places.end();
    while (last - first > 1) {
        const auto middle = first + (last - first) / 2;
        std::nth_element(first, middle, last);
        long double used = 0.0;
        for (auto place = first; place != middle; ++place)
            used += static_cast<long double>(upper[place->index] - lower[place->index]);
        if (used > left) {
            last = middle;
            continue;
        }
        for (; first != middle; ++first) point[first->index] = upper[first->index];
        left -= used;
    }
    const int64_t u = first->index;
    const double given = static_cast<double>(std::max(0.0L, left));
    point[u] = given < upper[u] - lower[u] ? lower[u] + given : upper[u];
    // The rounding error of point[u] is relative to the size of its box, which may be much larger than point[u]. So
    // point[u] is corrected by the error of the sum.
    if (lower[u] < point[u] && point[u] < upper[u])
        point[u] = std::clamp(point[u] - (find_sum(size, point) - total), lower[u], upper[u]);
}

}  // namespace mercer

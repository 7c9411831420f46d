// The point of a problem at the variables of the working set, and the changes that steps make to it.
#pragma once

#include <cstdint>
#include <vector>

#include "dual/block_problem.hpp"
#include "dual/working_set.hpp"

namespace mercer {

class WorkingPoint {
  public:
    WorkingPoint(const Variables& all, const int64_t* chosen, int64_t size)
        : beta(at_chosen(all.beta, chosen, size)),
          gradient(at_chosen(all.gradient, chosen, size)),
          chosen_(chosen, chosen + size),
          first_beta_(beta),
          first_gradient_(gradient),
          lower_(at_chosen(all.lower, chosen, size)),
          upper_(at_chosen(all.upper, chosen, size)),
          starts_{0} {
        for (int64_t g = 0, end = 0; g < all.n_groups; ++g) {
            while (end < size && all.groups[chosen[end]] == g) ++end;
            starts_.push_back(end);
        }
    }
    WorkingPoint(const WorkingPoint&) = delete;

    std::vector<double> beta, gradient;

    int64_t size() const { return static_cast<int64_t>(beta.size()); }
    const std::vector<int64_t>& chosen() const { return chosen_; }
    bool is_by_group() const { return n_groups() == 0 || starts_.back() == size(); }

    // Returns a block problem on this point; its steps move the point.
    template <class Real>
    BlockProblem<Real> problem(const Real* matrix, int64_t stride) {
        return {size(),        matrix,        stride,         beta.data(), gradient.data(),
                lower_.data(), upper_.data(), starts_.data(), n_groups()};
    }

    struct Moves {
        std::vector<int64_t> places, variables;  // positions in the working set, indices among all variables
        std::vector<double> changes;
    };

    Moves moves() const {
        Moves moves;
        for (int64_t k = 0; k < size(); ++k) {
            const double change = changed(k);
            if (change == 0.0) continue;
            moves.places.push_back(k), moves.variables.push_back(chosen_[static_cast<std::size_t>(k)]);
            moves.changes.push_back(change);
        }
        return moves;
    }

    void store(const std::vector<double>& from, double* all) const {
        for (std::size_t k = 0; k < from.size(); ++k) all[chosen_[k]] = from[k];
    }

    // Returns the increase of the dual objective; gradient_of(u) is the gradient of a variable at the new point.
    template <class GradientOf>
    double rise(GradientOf gradient_of) const {
        double sum = 0.0;
        for (int64_t k = 0; k < size(); ++k)
            sum += changed(k) *
                   (first_gradient_[static_cast<std::size_t>(k)] + gradient_of(chosen_[static_cast<std::size_t>(k)]));
        return -0.5 * sum;
    }

  private:
    static std::vector<double> at_chosen(const double* all, const int64_t* chosen, int64_t size) {
        std::vector<double> some(static_cast<std::size_t>(size));
        for (std::size_t k = 0; k < some.size(); ++k) some[k] = all[chosen[k]];
        return some;
    }

    int64_t n_groups() const { return static_cast<int64_t>(starts_.size()) - 1; }
    double changed(int64_t k) const {
        return beta[static_cast<std::size_t>(k)] - first_beta_[static_cast<std::size_t>(k)];
    }

    std::vector<int64_t> chosen_;
    std::vector<double> first_beta_, first_gradient_, lower_, upper_;
    std::vector<int64_t> starts_;  // first position of each group, and the end of the last group
};

}  // namespace mercer

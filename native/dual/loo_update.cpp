#include "dual/loo_update.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel/parallel.hpp"

namespace mercer {
namespace {

// tests/reference/left_out.py has the same constants and explains them.
constexpr int kRounds = 12;
constexpr std::size_t kSpreading = 4, kAtFirst = 16;
constexpr double kShortest = 1.0 / 4096.0;
constexpr double kNoPivot = 1e-11;
constexpr double kNear = 0.5;

constexpr std::size_t kMany = 4;  // if more than 1 / kMany of the places are near, evaluating all places is faster
constexpr int64_t kTogether = 4;  // rows added at a time

enum class Role : char { given, solved, moved };

// Differences from the known solution. `solved` are the variables that are solved for, in order, and `targets` their
// target values. `moved` are the variables that moved from one bound to the other, and `moves` the distances.
struct Exchange {
    std::vector<int64_t> solved, moved;
    std::vector<double> targets, moves;
};

class Search {
  public:
    explicit Search(const LeaveOutBatch& batch)
        : batch_(batch),
          roles_(static_cast<std::size_t>(batch.n_places), Role::given),
          is_near_(static_cast<std::size_t>(batch.n_places), 0),
          value_(static_cast<std::size_t>(batch.n_places)) {}

    void run(int64_t which, LeaveOutResult& result) {
        begin(which);
        Exchange last_exchange;
        if (is_basic_) {
            last_exchange.solved.push_back(main_);
            last_exchange.targets.push_back(0.0);
        }
        double done = 0.0, share = 1.0;
        while (true) {
            now_ = last_exchange;
            const bool is_solved = exchange_at(share, result);
            clear_roles();
            if (!result.needs.empty()) {
                result.end = LeaveOutEnd::needs_rows;
                return;
            }
            if (is_solved && share == 1.0) return;
            if (is_solved) {
                last_exchange = now_;
                const double step = share - done;
                done = share;
                share = std::min(1.0, share + 2.0 * step);
            } else {
                share = 0.5 * (done + share);
                if (share - done < kShortest) return;
            }
        }
    }

  private:
    void begin(int64_t which) {
        own_row_ = batch_.own_rows + batch_.own_slots[which] * batch_.n_places;
        corner_ = batch_.corner[which];
        gradient_ = batch_.gradient[which];
        main_ = batch_.main[which];
        partner_ = batch_.partner[which];
        amount_ = batch_.amount[which];
        total_ = batch_.total[which];
        own_drift_ = batch_.own_drift[which] * total_;
        is_basic_ = main_ >= 0 && main_ < batch_.n_basic;
        for (int64_t a : near_) is_near_[a] = 0;
        near_.clear();
    }

    bool basic(int64_t a) const { return a < batch_.n_basic; }

    const double* row(int64_t a) const {
        if (a == main_) return own_row_;
        return batch_.slots[a] < 0 ? nullptr : batch_.rows + batch_.slots[a] * batch_.n_places;
    }

    // Returns the derivative of the dependent number at place `at` by the given number of variable `a`.
    double effect(int64_t a, int64_t at) const { return basic(at) && !basic(a) ? -row(a)[at] : row(a)[at]; }

    void clear_roles() {
        for (int64_t a : now_.solved) roles_[a] = Role::given;
        for (int64_t a : now_.moved) roles_[a] = Role::given;
        for (int64_t a : unknown_) roles_[a] = Role::given;
    }

    // Finds the exchange of basic and nonbasic variables for `share` of the whole change; returns false if it was not
    // found. A place is wrong if its beta is outside the bounds or its gradient has the wrong sign. The first round
    // evaluates all places. The next rounds evaluate only places that may soon become wrong, until all of them are
    // right. Then all places are evaluated again.
    bool exchange_at(double share, LeaveOutResult& result) {
        for (int64_t a : now_.solved) roles_[a] = Role::solved;
        for (int64_t a : now_.moved) roles_[a] = Role::moved;
        std::size_t most = static_cast<std::size_t>(batch_.n_places);
        bool everywhere = true;
        for (int round = 0; round < kRounds;) {
            if (now_.solved.size() > most) return false;
            if (round == 1) most = kSpreading * now_.solved.size() + kAtFirst;
            if (is_basic_) now_.targets[0] = (1.0 - share) * batch_.point[main_];
            for (int64_t a : now_.solved)
                if (row(a) == nullptr) result.needs.push_back(a);
            for (int64_t a : now_.moved)
                if (row(a) == nullptr) result.needs.push_back(a);
            if (!result.needs.empty()) return false;
            solve_at(share);
            evaluate(share, everywhere);
            double worst = 0.0;
            if (change_places(everywhere, worst)) {
                everywhere = false;
                ++round;
            } else if (!everywhere) {
                everywhere = true;
            } else {
                if (share == 1.0) conclude(result, worst);
                return true;
            }
        }
        return false;
    }

    // Solves for the variables so that they reach their targets, given all other moves.
    void solve_at(double share) {
        sources_.clear();
        if (!is_basic_) sources_.push_back({own_row_, -share * amount_, share * amount_});
        for (std::size_t k = 0; k < now_.moved.size(); ++k) add_source(now_.moved[k], now_.moves[k]);
        unknown_ = now_.solved;
        const std::size_t size = unknown_.size();
        matrix_.resize(size * size);
        change_.resize(size);
        for (std::size_t r = 0; r < size; ++r) {
            const int64_t at = unknown_[r];
            for (std::size_t c = 0; c < size; ++c) matrix_[r * size + c] = effect(unknown_[c], at);
            change_[r] = now_.targets[r] - value_of(at, share);
        }
        solve();
        for (std::size_t c = 0; c < size; ++c) add_source(unknown_[c], change_[c]);
    }

    // Computes the values at this exchange: the values of the known solution plus the effect of all moves.
    void evaluate(double share, bool everywhere) {
        if (!everywhere && kMany * near_.size() < value_.size()) {
            for (int64_t a : near_) value_[a] = value_of(a, share);
            for (int64_t a : now_.moved) value_[a] = value_of(a, share);
            return;
        }
        for (int64_t a = 0; a < batch_.n_places; ++a) value_[a] = batch_.values[a] + share * total_ * batch_.drift[a];
        add_sources();
    }

    double value_of(int64_t a, double share) const {
        double value = batch_.values[a] + share * total_ * batch_.drift[a];
        for (const Source& source : sources_) value += source.row[a] * (basic(a) ? source.on_basic : source.on_others);
        return value;
    }

    void add_source(int64_t a, double amount) { sources_.push_back({row(a), basic(a) ? amount : -amount, amount}); }

    void add_sources() {
        std::size_t k = 0;
        for (; k + kTogether <= sources_.size(); k += kTogether) {
            const Source* s = sources_.data() + k;
            add_four(s, 0, batch_.n_basic, s[0].on_basic, s[1].on_basic, s[2].on_basic, s[3].on_basic);
            add_four(s, batch_.n_basic, batch_.n_places, s[0].on_others, s[1].on_others, s[2].on_others,
                     s[3].on_others);
        }
        for (; k < sources_.size(); ++k) {
            const Source& s = sources_[k];
            for (int64_t a = 0; a < batch_.n_basic; ++a) value_[a] += s.on_basic * s.row[a];
            for (int64_t a = batch_.n_basic; a < batch_.n_places; ++a) value_[a] += s.on_others * s.row[a];
        }
    }

    struct Source {
        const double* row;
        double on_basic, on_others;
    };

    void add_four(const Source* s, int64_t first, int64_t last, double a, double b, double c, double d) {
        const double *p = s[0].row, *q = s[1].row, *r = s[2].row, *t = s[3].row;
        double* value = value_.data();
        for (int64_t k = first; k < last; ++k) value[k] += a * p[k] + b * q[k] + c * r[k] + d * t[k];
    }

    // Solves by diagonal pivots, the largest first, after scaling to equal units; variables without a usable pivot stay
    // 0. The symmetric part of the matrix is and remains positive semidefinite.
    void solve() {
        const std::size_t size = unknown_.size();
        scale_.resize(size);
        used_.assign(size, 0);
        order_.clear();
        const double root = std::sqrt(batch_.size);
        for (std::size_t k = 0; k < size; ++k) scale_[k] = basic(unknown_[k]) ? root : 1.0 / root;
        for (std::size_t r = 0; r < size; ++r) {
            for (std::size_t c = 0; c < size; ++c) matrix_[r * size + c] *= scale_[r] * scale_[c];
            change_[r] *= scale_[r];
        }
        for (std::size_t step = 0; step < size; ++step) {
            double largest = -std::numeric_limits<double>::infinity();
            std::size_t p = 0;
            for (std::size_t k = 0; k < size; ++k)
                if (!used_[k] && matrix_[k * size + k] > largest) largest = matrix_[(p = k) * size + k];
            if (!(largest > kNoPivot)) break;
            used_[p] = 1;
            order_.push_back(p);
            const double* pivot = matrix_.data() + p * size;
            for (std::size_t r = 0; r < size; ++r) {
                if (used_[r]) continue;
                double* other = matrix_.data() + r * size;
                const double factor = other[p] / pivot[p];
                if (factor == 0.0) continue;
                for (std::size_t c = 0; c < size; ++c) other[c] -= factor * pivot[c];
                change_[r] -= factor * change_[p];
            }
        }
        for (std::size_t k = order_.size(); k-- > 0;) {
            const std::size_t p = order_[k];
            double rest = change_[p];
            for (std::size_t later = k + 1; later < order_.size(); ++later)
                rest -= matrix_[p * size + order_[later]] * change_[order_[later]];
            change_[p] = rest / matrix_[p * size + p];
        }
        for (std::size_t k = 0; k < size; ++k) change_[k] = used_[k] ? change_[k] * scale_[k] : 0.0;
    }

    // Exchanges all variables whose places are wrong. Returns whether there was one; `worst` is the largest accepted
    // violation.
    bool change_places(bool everywhere, double& worst) {
        bool wrong = false;
        Exchange next;
        for (std::size_t k = 0; k < now_.moved.size(); ++k) {
            const int64_t a = now_.moved[k];
            const double over = excess(a, batch_.point[a] + now_.moves[k]);
            if (over > batch_.tol_gradient) {
                next.solved.push_back(a);
                next.targets.push_back(0.0);
                roles_[a] = Role::solved;
                wrong = true;
            } else {
                next.moved.push_back(a);
                next.moves.push_back(now_.moves[k]);
                worst = std::max(worst, over);
            }
        }
        const std::size_t n_moved = next.solved.size();
        for (std::size_t k = 0; k < unknown_.size(); ++k) {
            const int64_t a = unknown_[k];
            const double target = now_.targets[k];
            bool stays = used_[k] != 0;
            if (a == main_) {
                wrong |= !stays;
                stays = true;
            } else if (!stays) {
                roles_[a] = Role::given;  // and is evaluated with this role
            } else if (basic(a)) {
                const double over = target == batch_.lower[a] ? -change_[k] : change_[k];
                stays = !(over > batch_.tol_gradient);
                if (stays) worst = std::max(worst, over);
                wrong |= !stays;
            } else {
                const double beta = batch_.point[a] + change_[k];
                const bool below = beta < batch_.lower[a] - batch_.tol_beta;
                if (below || beta > batch_.upper[a] + batch_.tol_beta) {
                    stays = false;
                    wrong = true;
                    const double bound = below ? batch_.lower[a] : batch_.upper[a];
                    if (bound != batch_.point[a]) {
                        next.moved.push_back(a);
                        next.moves.push_back(bound - batch_.point[a]);
                    }
                }
            }
            if (stays) {
                next.solved.push_back(a);
                next.targets.push_back(target);
            }
        }
        // The removed variable comes first.
        std::rotate(next.solved.begin(), next.solved.begin() + static_cast<std::ptrdiff_t>(n_moved), next.solved.end());
        std::rotate(next.targets.begin(), next.targets.begin() + static_cast<std::ptrdiff_t>(n_moved),
                    next.targets.end());
        if (everywhere) {
            for (int64_t a = 0; a < batch_.n_basic; ++a) check_basic(a, next, wrong, true);
            for (int64_t a = batch_.n_basic; a < batch_.n_places; ++a) check_other(a, next, wrong, worst, true);
        } else {
            for (int64_t a : near_)
                basic(a) ? check_basic(a, next, wrong, false) : check_other(a, next, wrong, worst, false);
        }
        for (int64_t a : unknown_) roles_[a] = Role::given;
        for (int64_t a : now_.moved) roles_[a] = Role::given;
        now_ = next;
        for (int64_t a : now_.solved) roles_[a] = Role::solved;
        for (int64_t a : now_.moved) roles_[a] = Role::moved;
        return wrong;
    }

    void check_basic(int64_t a, Exchange& next, bool& wrong, bool collects) {
        const double room = std::min(value_[a] - batch_.lower[a], batch_.upper[a] - value_[a]);
        if (collects && room < kNear * std::abs(value_[a] - batch_.values[a])) add_near(a);
        if (room >= -batch_.tol_beta || roles_[a] != Role::given || a == main_ || a == partner_) return;
        next.solved.push_back(a);
        next.targets.push_back(value_[a] < batch_.lower[a] ? batch_.lower[a] : batch_.upper[a]);
        wrong = true;
    }

    void check_other(int64_t a, Exchange& next, bool& wrong, double& worst, bool collects) {
        if (collects && std::abs(value_[a]) < kNear * std::abs(value_[a] - batch_.values[a])) add_near(a);
        if (std::abs(value_[a]) <= worst) return;
        const double over = excess(a, batch_.point[a]);
        if (over <= worst || roles_[a] != Role::given || a == main_ || a == partner_) return;
        if (over > batch_.tol_gradient) {
            next.solved.push_back(a);
            next.targets.push_back(0.0);
            wrong = true;
        } else {
            worst = over;
        }
    }

    void add_near(int64_t a) {
        if (is_near_[a]) return;
        is_near_[a] = 1;
        near_.push_back(a);
    }

    // Returns the amount by which the gradient at `a` has the wrong sign for this beta.
    double excess(int64_t a, double beta) const {
        double over = 0.0;
        if (beta < batch_.upper[a]) over = -value_[a];
        if (beta > batch_.lower[a]) over = std::max(over, value_[a]);
        return over;
    }

    void conclude(LeaveOutResult& result, double worst) {
        result.end = has_inside() ? LeaveOutEnd::left_out : LeaveOutEnd::loose;
        result.violation = worst;
        result.n_pivots = static_cast<int64_t>(unknown_.size() + now_.moved.size()) - (is_basic_ ? 1 : 0);
        std::vector<int64_t> places = unknown_;
        std::vector<double> changes = change_;
        places.insert(places.end(), now_.moved.begin(), now_.moved.end());
        changes.insert(changes.end(), now_.moves.begin(), now_.moves.end());
        double along = 0.0;
        result.gradient = is_basic_ ? change_[0] : gradient_ + corner_ * amount_ + own_drift_;
        for (std::size_t k = 0; k < places.size(); ++k) {
            if (!is_basic_) result.gradient += own_row_[places[k]] * changes[k];
            if (basic(places[k])) {
                result.gradients += changes[k] * changes[k];
                continue;
            }
            along += own_row_[places[k]] * changes[k];
            for (std::size_t l = 0; l < places.size(); ++l)
                if (!basic(places[l])) result.squared += changes[k] * changes[l] * row(places[k])[places[l]];
        }
        if (!is_basic_) result.squared += amount_ * (corner_ * amount_ + 2.0 * along);
        result.squared = std::max(0.0, result.squared);
    }

    bool has_inside() const {
        const double tol = batch_.tol_beta;
        auto inside = [&](int64_t a, double beta) {
            return a != main_ && a != partner_ && batch_.lower[a] + tol < beta && beta < batch_.upper[a] - tol;
        };
        for (int64_t a = 0; a < batch_.n_basic; ++a)
            if (roles_[a] == Role::given && inside(a, value_[a])) return true;
        for (std::size_t k = 0; k < unknown_.size(); ++k)
            if (!basic(unknown_[k]) && inside(unknown_[k], batch_.point[unknown_[k]] + change_[k])) return true;
        for (int64_t a = batch_.n_basic; a < batch_.n_places; ++a)
            if (roles_[a] == Role::given && inside(a, batch_.point[a])) return true;
        return false;
    }

    const LeaveOutBatch& batch_;
    const double* own_row_ = nullptr;
    double corner_ = 0.0, gradient_ = 0.0, amount_ = 0.0, total_ = 0.0, own_drift_ = 0.0;
    int64_t main_ = -1, partner_ = -1;
    bool is_basic_ = false;
    Exchange now_;
    std::vector<Role> roles_;
    std::vector<char> is_near_;  // places that are evaluated between evaluations of all places
    std::vector<int64_t> near_;
    std::vector<double> value_, matrix_, change_, scale_;
    std::vector<int64_t> unknown_;
    std::vector<char> used_;
    std::vector<std::size_t> order_;
    std::vector<Source> sources_;
};

constexpr int64_t kAtATime = 8;  // removed variables that a thread takes at a time; they share one workspace

struct Work {
    const LeaveOutBatch& batch;
    LeaveOutResult* results;
};

}  // namespace

void leave_out(const LeaveOutBatch& batch, LeaveOutResult* results, int n_threads) {
    Work work{batch, results};
    auto task = [](void* context, int64_t index) {
        const Work& shared_work = *static_cast<Work*>(context);
        Search search(shared_work.batch);
        const int64_t last = std::min((index + 1) * kAtATime, shared_work.batch.count);
        for (int64_t which = index * kAtATime; which < last; ++which) search.run(which, shared_work.results[which]);
    };
    parallel_for((batch.count + kAtATime - 1) / kAtATime, n_threads, task, &work);
}

}  // namespace mercer

#include "rows/pegasos.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "rows/row_readers.hpp"

namespace mercer {
namespace {

// Least scale of w = scale v. If the scale falls below it, v is multiplied by it, which is a sweep over all columns.
constexpr double kSmallestScale = 1e-3;

template <class Rows>
class Pegasos {
  public:
    Pegasos(const Rows& rows, PegasosState state, PegasosRule rule)
        : rows_(rows),
          s_(state),
          rule_(rule),
          products_(static_cast<std::size_t>(state.n_machines)),
          lagged_(products_.size()) {}

    void run(const PegasosVisits& visits) {
        coefficients_.resize(static_cast<std::size_t>(std::min(rule_.batch_size, visits.count) * s_.n_machines));
        for (int64_t first = 0; first < visits.count; first += rule_.batch_size)
            step(visits, first, std::min(first + rule_.batch_size, visits.count));
    }

  private:
    // One step on the visits `first` to `last` - 1.
    void step(const PegasosVisits& visits, int64_t first, int64_t last) {
        const int64_t n_machines = s_.n_machines;
        double weight = 0.0;
        for (int64_t i = first; i < last; ++i) {
            const int64_t row = visits.order[i], code = visits.codes[row];
            multiply(row, s_.v, products_.data());
            if (visits.hinge != nullptr) record(visits, i, row, code);
            for (int64_t k = 0; k < n_machines; ++k) {
                const double y = sign(code, k);
                const double charge = visits.weights[row] * (n_machines == 1 || k == code ? visits.factors[code] : 1.0);
                s_.charged[k] += charge;
                const bool violates = y * s_.scale[k] * products_[static_cast<std::size_t>(k)] < 1.0;
                coefficients_[static_cast<std::size_t>((i - first) * n_machines + k)] = violates ? y * charge : 0.0;
            }
            weight += visits.weights[row];
        }
        const double before = s_.seen;
        s_.seen += weight;
        bool is_current = last - first == 1;
        for (int64_t k = 0; k < n_machines; ++k)
            if (shrink(k, before / s_.seen)) is_current = false;
        for (int64_t i = first; i < last; ++i) add(visits.order[i], (i - first) * n_machines, is_current);
        if (rule_.projects)
            project();
        else
            s_.stale = static_cast<double>(s_.n_rows);  // sq_norm is not kept
        if (s_.lag != nullptr) {
            s_.total += weight * s_.seen;
            for (int64_t k = 0; k < n_machines; ++k) s_.mass[k] += weight * s_.seen * s_.scale[k];
        }
    }

    double sign(int64_t code, int64_t machine) const { return code == (s_.n_machines == 1 ? 1 : machine) ? 1.0 : -1.0; }

    // Computes the inner product of a row with each column of a matrix.
    void multiply(int64_t row, const double* matrix, double* products) const {
        const int64_t n_machines = s_.n_machines;
        if (n_machines == 1) {
            products[0] = rows_.dot(row, matrix);
            return;
        }
        for (int64_t k = 0; k < n_machines; ++k) products[k] = 0.0;
        rows_.each(row, [&](int64_t j, double x) {
            const double* weights = matrix + j * n_machines;
            for (int64_t k = 0; k < n_machines; ++k) products[k] += x * weights[k];
        });
    }

    // Writes the losses of the machine that predicts this row before the step: the average, or the last vector.
    void record(const PegasosVisits& visits, int64_t i, int64_t row, int64_t code) {
        const int64_t n_machines = s_.n_machines;
        const bool averages = s_.lag != nullptr && s_.total > 0.0;
        if (averages) multiply(row, s_.lag, lagged_.data());
        double hinge = 0.0, best = 0.0;
        int64_t winner = 0;
        for (int64_t k = 0; k < n_machines; ++k) {
            const auto at = static_cast<std::size_t>(k);
            const double z =
                averages ? (s_.mass[k] * products_[at] - lagged_[at]) / s_.total : s_.scale[k] * products_[at];
            hinge += std::max(0.0, 1.0 - sign(code, k) * z);
            if (k == 0 || z > best) best = z, winner = k;
        }
        if (n_machines == 1) winner = best > 0.0;
        visits.hinge[i] = hinge;
        visits.wrong[i] = winner != code;
    }

    // Multiplies w_k by a factor. If its scale becomes small, v is multiplied by it, and mass_k v_k is moved into lag:
    // otherwise the sum of all w_k would be the difference of two far larger numbers. Returns whether v has changed.
    bool shrink(int64_t k, double factor) {
        s_.scale[k] *= factor;
        if (s_.scale[k] >= kSmallestScale) return false;
        for (int64_t j = 0; j < s_.n_rows; ++j) {
            double& v = s_.v[j * s_.n_machines + k];
            if (s_.lag != nullptr) s_.lag[j * s_.n_machines + k] -= s_.mass[k] * v;
            v *= s_.scale[k];
        }
        s_.sq_norm[k] *= s_.scale[k] * s_.scale[k];
        s_.mass[k] = 0.0;
        s_.scale[k] = 1.0;
        return true;
    }

    // Adds a row to the machines that it violates. `is_current` says that products_ belong to this row and to v.
    void add(int64_t row, int64_t at, bool is_current) {
        const int64_t n_machines = s_.n_machines;
        double* steps = coefficients_.data() + at;
        bool moves = false;
        for (int64_t k = 0; k < n_machines; ++k) moves |= steps[k] != 0.0;
        if (!moves) return;
        if (rule_.projects && !is_current) multiply(row, s_.v, products_.data());
        for (int64_t k = 0; k < n_machines; ++k) steps[k] /= rule_.alpha * s_.seen * s_.scale[k];
        const double sq_length = n_machines == 1 ? move_one(row, steps[0]) : move_all(row, steps);
        for (int64_t k = 0; k < n_machines; ++k)
            s_.sq_norm[k] += steps[k] * (2.0 * products_[static_cast<std::size_t>(k)] + steps[k] * sq_length);
    }

    // Adds steps_k times a row to v_k, and mass_k times as much to lag_k. Returns the squared length of the row.
    double move_all(int64_t row, const double* steps) {
        const int64_t n_machines = s_.n_machines;
        double sq_length = 0.0;
        rows_.each(row, [&](int64_t j, double x) {
            sq_length += x * x;
            double* v = s_.v + j * n_machines;
            for (int64_t k = 0; k < n_machines; ++k) v[k] += steps[k] * x;
            if (s_.lag == nullptr) return;
            double* lag = s_.lag + j * n_machines;
            for (int64_t k = 0; k < n_machines; ++k) lag[k] += s_.mass[k] * steps[k] * x;
        });
        return sq_length;
    }

    // The same for one machine, as two loops that vectorise.
    double move_one(int64_t row, double step) {
        const double lagged = step * s_.mass[0];
        double* __restrict v = s_.v;
        double* __restrict lag = s_.lag;
        rows_.each(row, [=](int64_t j, double x) { v[j] += step * x; });
        if (lag != nullptr) rows_.each(row, [=](int64_t j, double x) { lag[j] += lagged * x; });
        return rule_.projects ? rows_.square(row) : 0.0;
    }

    // Moves each w_k to the nearest point of the ball that holds the optimum: of radius 1 / sqrt(lambda), or with
    // class weights, the root of (their mean over the rows so far) / lambda.
    void project() {
        if (++s_.stale > static_cast<double>(s_.n_rows)) {
            s_.stale = 0.0;
            std::fill(s_.sq_norm, s_.sq_norm + s_.n_machines, 0.0);
            for (int64_t j = 0; j < s_.n_rows; ++j)
                for (int64_t k = 0; k < s_.n_machines; ++k)
                    s_.sq_norm[k] += s_.v[j * s_.n_machines + k] * s_.v[j * s_.n_machines + k];
        }
        for (int64_t k = 0; k < s_.n_machines; ++k) {
            const double radius = std::sqrt(s_.charged[k] / s_.seen / rule_.alpha);
            const double norm = s_.scale[k] * std::sqrt(std::max(0.0, s_.sq_norm[k]));
            if (norm > radius) shrink(k, radius / norm);
        }
    }

    const Rows& rows_;
    PegasosState s_;
    PegasosRule rule_;
    std::vector<double> products_, lagged_, coefficients_;
};

}  // namespace

bool pegasos_steps(const LinearTable& table, const PegasosState& state, const PegasosRule& rule,
                   const PegasosVisits& visits) {
    bool in_range = true;
    with_row_reader(table, [&]<class Rows>(const Rows& rows) {
        for (int64_t i = 0; i < visits.count && in_range; ++i) in_range = rows.is_in_range(visits.order[i]);
        if (in_range) Pegasos<Rows>(rows, state, rule).run(visits);
    });
    return in_range;
}

}  // namespace mercer

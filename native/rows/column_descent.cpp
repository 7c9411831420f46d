#include "rows/column_descent.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "rows/random_order.hpp"
#include "rows/row_readers.hpp"

namespace mercer {
namespace {

constexpr int kInner = 10;        // passes over the nonzero columns for a pass over all chosen columns
constexpr double kRidge = 1e-12;  // share of a second derivative that is added to it, so that it is not 0

template <class Rows>
class Columns {
  public:
    Columns(const Rows& rows, const ColumnModel& model)
        : rows_(rows),
          model_(model),
          order_(model.seed),
          bends_(static_cast<std::size_t>(model.n_chosen)),
          slopes_(static_cast<std::size_t>(rows.table.n_columns)) {
        for (std::size_t i = 0; i < slopes_.size(); ++i) slopes_[i] = model.curvature[i] * model.change[i];
        for (int64_t at = 0; at < model.n_chosen; ++at) {
            double sum = 0.0;
            each(model.chosen[at], [&](int64_t i, double x) { sum += model.curvature[i] * x * x; });
            bends_[static_cast<std::size_t>(at)] = sum * (1.0 + kRidge) + model.weight[model.chosen[at]];
        }
        places_.resize(bends_.size());
        for (std::size_t at = 0; at < places_.size(); ++at) places_[at] = static_cast<int64_t>(at);
    }

    ColumnReport run(double target, int64_t most) {
        ColumnReport report{0, 0.0, true};
        std::vector<int64_t> nonzero;
        while (report.n_passes < most) {
            report.violation = pass(places_);
            ++report.n_passes;
            if (report.violation <= target) break;
            nonzero.clear();
            for (const int64_t at : places_)
                if (model_.u[model_.chosen[at]] != 0.0) nonzero.push_back(at);
            for (int k = 0; k < kInner; ++k)
                if (pass(nonzero) <= target) break;
        }
        return report;
    }

  private:
    template <class See>
    void each(int64_t j, See see) const {
        if (j < rows_.table.n_rows) return rows_.each(j, see);
        for (int64_t i = 0; i < rows_.table.n_columns; ++i) see(i, model_.columns.constant);
    }

    // Optimises over each of these columns, in random order; returns the sum of their violations before their steps.
    double pass(std::vector<int64_t>& places) {
        order_.shuffle(places.data(), static_cast<int64_t>(places.size()));
        double violations = 0.0;
        for (const int64_t at : places) {
            const int64_t j = model_.chosen[at];
            const double bend = bends_[static_cast<std::size_t>(at)], u = model_.u[j], penalty = model_.penalty[j];
            if (!(bend > 0.0)) continue;  // a column of zeros, or one without curvature here
            double gradient = model_.weight[j] * (u - model_.centre[j]) - model_.pull[j];
            each(j, [&](int64_t i, double x) { gradient += x * slopes_[static_cast<std::size_t>(i)]; });
            violations += u > 0.0   ? std::abs(gradient + penalty)
                          : u < 0.0 ? std::abs(gradient - penalty)
                                    : std::max(0.0, std::abs(gradient) - penalty);
            const double push = bend * u - gradient;
            const double best = push > penalty    ? (push - penalty) / bend
                                : push < -penalty ? (push + penalty) / bend
                                                  : 0.0;
            if (best == u) continue;
            model_.u[j] = best;
            const double step = best - u;
            each(j, [&](int64_t i, double x) {
                model_.change[i] += step * x;
                slopes_[static_cast<std::size_t>(i)] += model_.curvature[i] * (step * x);
            });
        }
        return violations;
    }

    Rows rows_;
    ColumnModel model_;
    RandomOrder order_;
    std::vector<double> bends_;    // second derivative of each chosen column
    std::vector<double> slopes_;   // curvature times change of each row of X
    std::vector<int64_t> places_;  // of the chosen columns
};

}  // namespace

ColumnReport descend_columns(const ColumnModel& model, double target, int64_t most) {
    ColumnReport report{0, 0.0, false};
    LinearTable columns = model.columns;
    columns.constant = 0.0;
    with_row_reader(columns, [&]<class Rows>(const Rows& rows) {
        if (all_in_range(rows)) report = Columns<Rows>(rows, model).run(target, most);
    });
    return report;
}

}  // namespace mercer

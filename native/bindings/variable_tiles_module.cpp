// Binding for rounds with a cheap kernel: the matrix of the working set, and the gradient update after its moves. With
// cheap kernel values the same operations in Python would dominate the time of a round.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bindings/binding.hpp"
#include "gram/index_lists.hpp"
#include "gram/row_sums.hpp"
#include "gram/tile_request.hpp"

namespace mercer {
namespace {

// Kernel values between variables, in single precision. Each variable belongs to a row of a table; a row may have
// several variables.
class VariableTiles {
  public:
    VariableTiles(const std::string& isa, const CompiledKernel& kernel, const Table& table,
                  std::optional<ConstDoubles> centre, std::optional<ConstIndices> rows,
                  std::optional<ConstIndices> owners, int n_threads, int64_t one_thread_values)
        : native_(implementation(isa)),
          request_(make_request(native_, kernel, table, rows, table, rows, centre, n_threads)),
          centre_(centre),
          rows_(copy_of(rows)),
          owners_(copy_of(owners)),
          n_rows_(request_.left.count),
          n_variables_(owners ? static_cast<int64_t>(owners->shape(0)) : n_rows_),
          has_owners_(owners.has_value()),
          n_threads_(n_threads),
          one_thread_values_(one_thread_values) {
        request_.left.rows = request_.right.rows = nullptr;  // set by each call
        check_indices(owners_.data(), static_cast<int64_t>(owners_.size()), n_rows_);
        is_doubled_ = has_owners_ && n_variables_ == 2 * n_rows_;
        for (int64_t u = 0; u < n_variables_ && is_doubled_; ++u) is_doubled_ = owners_[at(u)] == u % n_rows_;
    }
    VariableTiles(const VariableTiles&) = delete;

    // Writes K[chosen, chosen], with zeros as padding; returns the number of values.
    int64_t square(ConstIndices chosen, MatrixOf<float> out) const {
        const auto size = static_cast<int64_t>(chosen.shape(0));
        check_indices(chosen.data(), size, n_variables_);
        check_padded(out, size);
        const std::vector<int64_t> rows = rows_of(chosen.data(), size);
        const ReleasedGil released;
        evaluate(table_rows(rows), out.data(), out.stride(0));
        for (int64_t k = 0; k < size; ++k)
            std::fill(out.data() + k * out.stride(0) + size, out.data() + k * out.stride(0) + padded(size), 0.0F);
        return size * size;
    }

    // Adds K[:, cols] changes to the gradient of all variables whose row is in `active` (all rows without a list). If
    // `matrix` is given, its rows `places` are K[cols, chosen], and values of `chosen` are read from there. Returns the
    // number of evaluated kernel values.
    int64_t follow(ConstIndices cols, ConstDoubles changes, std::optional<ConstIndices> active, Doubles gradient,
                   ConstIndices chosen, std::optional<MatrixOf<const float>> matrix, ConstIndices places) const {
        const auto n_cols = static_cast<int64_t>(cols.shape(0)), size = static_cast<int64_t>(chosen.shape(0));
        require(static_cast<int64_t>(changes.shape(0)) == n_cols && static_cast<int64_t>(places.shape(0)) == n_cols,
                "cols, changes and places must have the same length");
        require(static_cast<int64_t>(gradient.shape(0)) == n_variables_, "the gradient must have all variables");
        check_indices(cols.data(), n_cols, n_variables_);
        check_indices(chosen.data(), size, n_variables_);
        check_indices(places.data(), n_cols, size);
        if (active) check_indices(active->data(), static_cast<int64_t>(active->shape(0)), n_rows_);
        if (matrix) check_padded(*matrix, size);
        const ReleasedGil released;
        std::vector<double> change(has_owners_ ? at(n_rows_) : 0);
        double* rise = has_owners_ ? change.data() : gradient.data();
        const std::vector<int64_t> own_rows = rows_of(chosen.data(), size);
        if (matrix) {
            std::vector<double> own_rise(own_rows.size());
            native_.combine_single({matrix->data(), matrix->stride(0), places.data(), n_cols, nullptr, size},
                                   {changes.data(), own_rise.data(), 1}, n_threads_);
            for (std::size_t k = 0; k < own_rows.size();
                 ++k)  // assigned once, even if both variables of a row are chosen
                rise[own_rows[k]] = has_owners_ ? own_rise[k] : rise[own_rows[k]] + own_rise[k];
        }
        const std::vector<int64_t> left =
            places_without(own_rows.data(), matrix ? size : 0, active ? active->data() : nullptr,
                           active ? static_cast<int64_t>(active->shape(0)) : 0, n_rows_);
        const std::vector<double> sums = products(left, rows_of(cols.data(), n_cols), changes.data());
        for (std::size_t k = 0; k < left.size(); ++k) rise[left[k]] += sums[k];
        if (has_owners_) share(change, gradient.data());
        return static_cast<int64_t>(left.size()) * n_cols;
    }

  private:
    static std::size_t at(int64_t place) { return static_cast<std::size_t>(place); }

    static std::vector<int64_t> copy_of(const std::optional<ConstIndices>& indices) {
        return indices ? std::vector<int64_t>(indices->data(), indices->data() + indices->shape(0))
                       : std::vector<int64_t>{};
    }

    std::vector<int64_t> rows_of(const int64_t* variables, int64_t count) const {
        std::vector<int64_t> rows(variables, variables + count);
        if (has_owners_)
            for (int64_t& u : rows) u = owners_[at(u)];
        return rows;
    }

    std::vector<int64_t> table_rows(std::vector<int64_t> rows) const {
        if (!rows_.empty())
            for (int64_t& row : rows) row = rows_[at(row)];
        return rows;
    }

    // The same rule as threads_that_pay in src/mercer/gram/threads.py.
    int threads_for(int64_t n_values) const {
        if (n_values <= one_thread_values_) return 1;
        return static_cast<int>(std::min<int64_t>(n_threads_, 2 * n_values / std::max<int64_t>(1, one_thread_values_)));
    }

    TileRequest between(const std::vector<int64_t>& left, const std::vector<int64_t>& right) const {
        TileRequest request = request_;
        request.left.rows = left.data(), request.left.count = static_cast<int64_t>(left.size());
        request.right.rows = right.data(), request.right.count = static_cast<int64_t>(right.size());
        request.symmetric = &left == &right;
        request.n_threads = threads_for(request.left.count * request.right.count);
        return request;
    }

    void evaluate(const std::vector<int64_t>& rows, float* out, int64_t stride) const {
        if (!rows.empty()) native_.block_single(between(rows, rows), out, stride);
    }

    std::vector<double> products(const std::vector<int64_t>& left, const std::vector<int64_t>& right,
                                 const double* weights) const {
        std::vector<double> sums(left.size());
        const std::vector<int64_t> ours = table_rows(left), theirs = table_rows(right);
        if (!ours.empty() && !theirs.empty()) native_.matvec_single(between(ours, theirs), weights, 1, sums.data());
        return sums;
    }

    // Adds the change of each row to the gradients of its variables, also for inactive rows, whose change is 0.
    void share(const std::vector<double>& change, double* gradient) const {
        if (is_doubled_) {
            for (double* half : {gradient, gradient + n_rows_})
                for (int64_t row = 0; row < n_rows_; ++row) half[row] += change[at(row)];
            return;
        }
        for (int64_t u = 0; u < n_variables_; ++u) gradient[u] += change[at(owners_[at(u)])];
    }

    const Implementation& native_;
    TileRequest request_;
    const std::optional<ConstDoubles> centre_;  // keeps the array alive
    const std::vector<int64_t> rows_, owners_;  // empty: all rows of the table; each variable has its own row
    int64_t n_rows_, n_variables_;
    bool has_owners_;
    int n_threads_;
    int64_t one_thread_values_;
    bool is_doubled_ = false;  // whether the variables belong to all rows in order, twice
};

}  // namespace

void bind_variable_tiles(nb::module_& m) {
    nb::class_<VariableTiles>(m, "VariableTiles")
        .def(nb::init<const std::string&, const CompiledKernel&, const Table&, std::optional<ConstDoubles>,
                      std::optional<ConstIndices>, std::optional<ConstIndices>, int, int64_t>(),
             nb::arg("isa"), nb::arg("kernel"), nb::arg("table"), nb::arg("centre").noconvert().none(),
             nb::arg("rows").noconvert().none(), nb::arg("owners").noconvert().none(), nb::arg("n_threads"),
             nb::arg("one_thread_values"), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>())
        .def("square", &VariableTiles::square, nb::arg("chosen").noconvert(), nb::arg("out").noconvert())
        .def("follow", &VariableTiles::follow, nb::arg("cols").noconvert(), nb::arg("changes").noconvert(),
             nb::arg("active").noconvert().none(), nb::arg("gradient").noconvert(), nb::arg("chosen").noconvert(),
             nb::arg("matrix").noconvert().none(), nb::arg("places").noconvert());
}

}  // namespace mercer

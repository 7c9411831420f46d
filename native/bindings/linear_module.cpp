// Bindings of the sweeps over the rows of linear machines, and of the terms of rows.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "bindings/binding.hpp"
#include "bindings/linear_table.hpp"
#include "rows/class_epoch.hpp"
#include "rows/class_step.hpp"
#include "rows/newton_pass.hpp"
#include "rows/row_terms.hpp"
#include "rows/sweeps.hpp"

namespace mercer {
namespace {

using Bits = nb::ndarray<uint16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

bool fits(const auto& matrix, int64_t rows, int64_t columns) {
    return static_cast<int64_t>(matrix.shape(0)) == rows && static_cast<int64_t>(matrix.shape(1)) == columns;
}

bool fits_vector(const auto& vector, int64_t size) { return static_cast<int64_t>(vector.shape(0)) == size; }

void row_products(const std::string& isa, const LinearTableOfArrays& table, ConstDoubleRows vectors, DoubleRows out,
                  int n_threads) {
    const LinearTable& view = table.view;
    const auto n_vectors = static_cast<int64_t>(vectors.shape(1));
    require(fits(vectors, view.width(), n_vectors) && fits(out, view.n_rows, n_vectors),
            "vectors must have a row for each column of the table, and out a row for each row of the table");
    const Implementation& native = implementation(isa);
    bool in_range = true;
    {
        const ReleasedGil released;
        in_range = native.row_products({view, vectors.data(), n_vectors, out.data()}, n_threads);
    }
    check_range(in_range);
}

void weighted_sums(const std::string& isa, const LinearTableOfArrays& table, std::optional<ConstDoubleRows> weights,
                   std::optional<DoubleRows> sums, std::optional<ConstDoubles> gram_weights,
                   std::optional<ConstDoubles> scales, std::optional<DoubleRows> gram, int n_threads) {
    const LinearTable& view = table.view;
    const int64_t n = view.n_rows, q = view.width();
    const auto n_sums = weights ? static_cast<int64_t>(weights->shape(1)) : 0;
    require(weights.has_value() == sums.has_value() && gram_weights.has_value() == scales.has_value() &&
                scales.has_value() == gram.has_value(),
            "weights and sums, and gram_weights, scales and gram, must be given together");
    require(!weights || (fits(*weights, n, n_sums) && fits(*sums, q, n_sums)),
            "weights must have a row for each row of the table, and sums one for each column");
    require(!gram || (fits_vector(*gram_weights, n) && fits_vector(*scales, q) && fits(*gram, q, q)),
            "gram_weights must have a number for each row; scales and gram must have a row for each column");
    const Implementation& native = implementation(isa);
    bool in_range = true;
    {
        const ReleasedGil released;
        in_range = native.weighted_sums(
            {view, weights ? weights->data() : nullptr, n_sums, sums ? sums->data() : nullptr,
             gram ? gram_weights->data() : nullptr, gram ? scales->data() : nullptr, gram ? gram->data() : nullptr},
            n_threads);
    }
    check_range(in_range);
}

// Sizes and indices are checked; `order` must list rows.
void class_epoch(const std::string& isa, const LinearTableOfArrays& table, bool is_squared, ConstIndices order,
                 ConstDoubles squares, ConstDoubleRows charges, DoubleRows beta, DoubleRows w, Bits active,
                 ConstDoubles up, ConstDoubles down, DoubleRows measures, Counts n_shrunken) {
    const LinearTable& view = table.view;
    const auto n_classes = static_cast<int64_t>(w.shape(1));
    require(view.is_sparse(), "the table must be sparse");
    require(n_classes > 0 && n_classes <= kMostClasses && n_classes % kClassesAtATime == 0,
            "w must have 4, 8, 12 or 16 columns");
    require(fits(w, view.width(), n_classes) && fits(beta, view.n_rows, n_classes) &&
                fits(charges, view.n_rows, n_classes) && fits_vector(squares, view.n_rows) &&
                fits_vector(active, view.n_rows),
            "charges, beta, squares and active must have a row for each row of the table, and w one for each column");
    require(fits_vector(up, n_classes) && fits_vector(down, n_classes) && fits(measures, 4, n_classes) &&
                fits_vector(n_shrunken, n_classes),
            "up, down, measures and n_shrunken must have an element for each class");
    check_indices(order.data(), static_cast<int64_t>(order.shape(0)), view.n_rows);
    const ClassEpochFunction native = implementation(isa).class_epoch;
    bool in_range = true;
    {
        const ReleasedGil released;
        in_range = native({view, is_squared, order.data(), static_cast<int64_t>(order.shape(0)), n_classes,
                           squares.data(), charges.data(), beta.data(), w.data(), active.data(), up.data(), down.data(),
                           measures.data(), n_shrunken.data()});
    }
    check_range(in_range);
}

void class_step(const std::string& isa, const LinearTableOfArrays& table, bool is_squared, ConstDoubleRows charges,
                DoubleRows beta, DoubleRows w, DoubleRows beta_before, DoubleRows w_before, DoubleRows beta_change,
                DoubleRows w_change, DoubleRows moved, Doubles growth) {
    const LinearTable& view = table.view;
    const int64_t n = view.n_rows, q = view.width(), n_classes = static_cast<int64_t>(w.shape(1));
    require(view.is_sparse(), "the table must be sparse");
    require(n_classes > 0 && n_classes <= kMostClasses && n_classes % kClassesAtATime == 0,
            "w must have 4, 8, 12 or 16 columns");
    require(fits(charges, n, n_classes) && fits(beta, n, n_classes) && fits(beta_before, n, n_classes) &&
                fits(beta_change, n, n_classes),
            "charges, beta, beta_before and beta_change must have a row for each row of the table");
    require(fits(w, q, n_classes) && fits(w_before, q, n_classes) && fits(w_change, q, n_classes) &&
                fits(moved, q, n_classes) && fits_vector(growth, n_classes),
            "w, w_before, w_change and moved must have a row for each column, and growth a number for each class");
    const ClassStepFunction native = implementation(isa).class_step;
    bool in_range = true;
    {
        const ReleasedGil released;
        in_range = native({view, is_squared, n_classes, charges.data(), beta.data(), w.data(), beta_before.data(),
                           w_before.data(), beta_change.data(), w_change.data(), moved.data(), growth.data()});
    }
    check_range(in_range);
}

void squares(SquaresFunction function, const LinearTable& view, Doubles out, int64_t size, int n_threads) {
    require(fits_vector(out, size), "out must have a number for each row or for each column");
    bool in_range = true;
    {
        const ReleasedGil released;
        in_range = function(view, out.data(), n_threads);
    }
    check_range(in_range);
}

// The terms of rows with the arrays that they view.
class RowTermsOfArrays {
  public:
    RowTermsOfArrays(bool is_logistic, bool one_sided, bool bounded, double epsilon, double factor, double unit,
                     ConstDoubles targets, ConstDoubles charges, std::optional<ConstDoubles> shares)
        : view{is_logistic,
               one_sided,
               bounded,
               epsilon,
               factor,
               unit,
               static_cast<int64_t>(targets.shape(0)),
               targets.data(),
               charges.data(),
               shares ? shares->data() : nullptr},
          targets_(targets),
          charges_(charges),
          shares_(shares) {
        require(fits_vector(charges, view.count) && (!shares || fits_vector(*shares, view.count)),
                "targets, charges and shares must have the same length");
        require(epsilon >= 0.0 && factor > 0.0, "epsilon must be at least 0, and factor larger than 0");
    }

    RowTerms view;

  private:
    ConstDoubles targets_, charges_;
    std::optional<ConstDoubles> shares_;
};

std::tuple<double, double, double> row_terms(const std::string& isa, const RowTermsOfArrays& rows, ConstDoubles z,
                                             Doubles beta, Doubles curvature, int n_threads) {
    const RowTerms& terms = rows.view;
    require(fits_vector(z, terms.count) && fits_vector(beta, terms.count) && fits_vector(curvature, terms.count),
            "z, beta and curvature must have the length of targets");
    const Implementation& native = implementation(isa);
    TermSums sums{};
    {
        const ReleasedGil released;
        sums = native.row_terms(terms, z.data(), {beta.data(), curvature.data()}, n_threads);
    }
    return {sums.total, sums.loss, sums.excess};
}

void term_line(const std::string& isa, const RowTermsOfArrays& rows, ConstDoubles z, ConstDoubles change,
               ConstDoubles lengths, Doubles slopes, Doubles bends, int n_threads) {
    const RowTerms& terms = rows.view;
    const auto n_lengths = static_cast<int64_t>(lengths.shape(0));
    require(fits_vector(z, terms.count) && fits_vector(change, terms.count),
            "z and change must have the length of targets");
    require(fits_vector(slopes, n_lengths) && fits_vector(bends, n_lengths),
            "slopes and bends must have the length of lengths");
    const Implementation& native = implementation(isa);
    {
        const ReleasedGil released;
        native.term_line(terms, {z.data(), change.data(), lengths.data(), n_lengths, slopes.data(), bends.data()},
                         n_threads);
    }
}

constexpr int64_t kMostPassColumns = 256;  // of a Gram matrix of which every group of rows has its own

std::tuple<double, double, double, double, double, double> newton_pass(
    const std::string& isa, const LinearTableOfArrays& table, const RowTermsOfArrays& rows,
    std::optional<ConstDoubles> w, Doubles z, std::optional<Doubles> curvature, bool is_update, ConstDoubles scales,
    Doubles pull, DoubleRows gram, int n_threads) {
    const LinearTable& view = table.view;
    const int64_t n = view.n_rows, q = view.width();
    const RowTerms& terms = rows.view;
    require(!view.is_sparse() && q <= kMostPassColumns, "the table must be dense and have at most 256 columns");
    require(terms.count == n && fits_vector(z, n) && (!curvature || fits_vector(*curvature, n)),
            "targets, charges, z and curvature must have a number for each row");
    require((!w || fits_vector(*w, q)) && fits_vector(scales, q) && fits_vector(pull, q) && fits(gram, q, q),
            "w, scales, pull and gram must have a number for each column");
    require(curvature || !is_update, "an update needs the old second derivatives");
    const Implementation& native = implementation(isa);
    PassSums sums{};
    {
        const ReleasedGil released;
        sums =
            native.newton_pass({view, terms, w ? w->data() : nullptr, z.data(), curvature ? curvature->data() : nullptr,
                                is_update, scales.data(), pull.data(), gram.data()},
                               n_threads);
    }
    return {sums.terms.total, sums.terms.loss, sums.terms.excess, sums.squares, sums.curvature, sums.change};
}

}  // namespace

void bind_linear(nb::module_& m) {
    nb::class_<LinearTableOfArrays>(m, "LinearTable")
        .def(nb::init<AnyMatrix, double>(), nb::arg("array").noconvert(), nb::arg("constant"))
        .def(nb::init<AnyVector, AnyVector, AnyVector, int64_t, double>(), nb::arg("data").noconvert(),
             nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("n_columns"), nb::arg("constant"));
    m.def("row_products", &row_products, nb::arg("isa"), nb::arg("table"), nb::arg("vectors").noconvert(),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("weighted_sums", &weighted_sums, nb::arg("isa"), nb::arg("table"), nb::kw_only(),
          nb::arg("weights").noconvert().none(), nb::arg("sums").noconvert().none(),
          nb::arg("gram_weights").noconvert().none(), nb::arg("scales").noconvert().none(),
          nb::arg("gram").noconvert().none(), nb::arg("n_threads"));
    m.def(
        "row_squares",
        [](const std::string& isa, const LinearTableOfArrays& table, Doubles out, int n_threads) {
            squares(implementation(isa).row_squares, table.view, out, table.view.n_rows, n_threads);
        },
        nb::arg("isa"), nb::arg("table"), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def(
        "column_squares",
        [](const std::string& isa, const LinearTableOfArrays& table, Doubles out, int n_threads) {
            squares(implementation(isa).column_squares, table.view, out, table.view.width(), n_threads);
        },
        nb::arg("isa"), nb::arg("table"), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("class_epoch", &class_epoch, nb::arg("isa"), nb::arg("table"), nb::kw_only(), nb::arg("is_squared"),
          nb::arg("order").noconvert(), nb::arg("squares").noconvert(), nb::arg("charges").noconvert(),
          nb::arg("beta").noconvert(), nb::arg("w").noconvert(), nb::arg("active").noconvert(),
          nb::arg("up").noconvert(), nb::arg("down").noconvert(), nb::arg("measures").noconvert(),
          nb::arg("n_shrunken").noconvert());
    m.def("class_step", &class_step, nb::arg("isa"), nb::arg("table"), nb::kw_only(), nb::arg("is_squared"),
          nb::arg("charges").noconvert(), nb::arg("beta").noconvert(), nb::arg("w").noconvert(),
          nb::arg("beta_before").noconvert(), nb::arg("w_before").noconvert(), nb::arg("beta_change").noconvert(),
          nb::arg("w_change").noconvert(), nb::arg("moved").noconvert(), nb::arg("growth").noconvert());
    nb::class_<RowTermsOfArrays>(m, "RowTerms")
        .def(nb::init<bool, bool, bool, double, double, double, ConstDoubles, ConstDoubles,
                      std::optional<ConstDoubles>>(),
             nb::kw_only(), nb::arg("is_logistic"), nb::arg("one_sided"), nb::arg("bounded"), nb::arg("epsilon"),
             nb::arg("factor"), nb::arg("unit"), nb::arg("targets").noconvert(), nb::arg("charges").noconvert(),
             nb::arg("shares").noconvert().none());
    m.def("row_terms", &row_terms, nb::arg("isa"), nb::arg("terms"), nb::kw_only(), nb::arg("z").noconvert(),
          nb::arg("beta").noconvert(), nb::arg("curvature").noconvert(), nb::arg("n_threads"));
    m.def("term_line", &term_line, nb::arg("isa"), nb::arg("terms"), nb::kw_only(), nb::arg("z").noconvert(),
          nb::arg("change").noconvert(), nb::arg("lengths").noconvert(), nb::arg("slopes").noconvert(),
          nb::arg("bends").noconvert(), nb::arg("n_threads"));
    m.def("newton_pass", &newton_pass, nb::arg("isa"), nb::arg("table"), nb::arg("terms"), nb::kw_only(),
          nb::arg("w").noconvert().none(), nb::arg("z").noconvert(), nb::arg("curvature").noconvert().none(),
          nb::arg("is_update"), nb::arg("scales").noconvert(), nb::arg("pull").noconvert(), nb::arg("gram").noconvert(),
          nb::arg("n_threads"));
}

}  // namespace mercer

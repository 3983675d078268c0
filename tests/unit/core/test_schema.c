/* Tests the schemas of TensorFlow's ops (runtime/core/schema.h). */
#include "tests/support/test.h"

#include "runtime/core/schema.h"

static void every_op_is_found_by_its_name(void **state)
{
    (void)state;
    assert_true(rt_schema_count() > 1800);
    for (int i = 0; i < rt_schema_count(); i++)
        assert_ptr_equal(rt_schema_find(rt_schema_at(i)->name), rt_schema_at(i));
}

static void a_stranger_is_not_found(void **state)
{
    (void)state;
    assert_null(rt_schema_find(""));
    assert_null(rt_schema_find("Ad"));
    assert_null(rt_schema_find("MatMuk"));
    assert_null(rt_schema_find("zzz"));
}

static void the_table_is_sorted_and_points_inside_itself(void **state)
{
    (void)state;
    for (int i = 0; i < rt_schema_count(); i++) {
        const struct rt_schema *s = rt_schema_at(i);
        if (i)
            assert_true(strcmp(rt_schema_at(i - 1)->name, s->name) < 0);
        for (int side = 0; side < 2; side++) {
            const struct rt_arg_schema *args = side ? s->out : s->in;
            for (int k = 0; k < (side ? s->n_out : s->n_in); k++) {
                const struct rt_arg_schema *a = &args[k];
                assert_true(a->type_attr < s->n_attr && a->number_attr < s->n_attr &&
                            a->list_attr < s->n_attr);
                /* An argument's type is either fixed or given by one attribute, which holds a type
                 * or a list of types. */
                assert_int_equal(
                    (a->type != RT_NO_DTYPE) + (a->type_attr >= 0) + (a->list_attr >= 0), 1);
                if (a->type_attr >= 0)
                    assert_int_equal(s->attr[a->type_attr].type, RT_ATTR_TYPE);
                if (a->number_attr >= 0)
                    assert_int_equal(s->attr[a->number_attr].type, RT_ATTR_INT);
                if (a->list_attr >= 0)
                    assert_int_equal(s->attr[a->list_attr].type, RT_ATTR_LIST + RT_ATTR_TYPE);
            }
        }
        for (int k = 0; k < s->n_attr; k++)
            assert_int_equal(s->attr[k].has_default, s->attr[k].value != NULL);
    }
}

static void types_strings_minimums_and_defaults_are_those_of_the_registry(void **state)
{
    (void)state;
    const struct rt_schema *s = rt_schema_find("AvgPool");
    assert_non_null(s);
    assert_int_equal(s->n_in, 1);
    assert_string_equal(s->in[0].name, "value");
    int t = rt_schema_attr(s, "T");
    assert_int_equal(s->in[0].type_attr, t);
    assert_true(s->attr[t].types == (RT_T(RT_F16) | RT_T(RT_BF16) | RT_T(RT_F32) | RT_T(RT_F64)));
    int k = rt_schema_attr(s, "ksize");
    assert_int_equal(s->attr[k].type, RT_ATTR_LIST + RT_ATTR_INT);
    assert_true(s->attr[k].has_minimum);
    assert_int_equal(s->attr[k].minimum, 4);
    int f = rt_schema_attr(s, "data_format");
    assert_string_equal(s->attr[f].value, "NHWC");
    assert_int_equal(s->attr[f].n_strings, 2);
    assert_memory_equal(s->attr[f].strings, "NHWC\0NCHW", 10);
    assert_int_equal(rt_schema_attr(s, "nothing"), -1);
}

static void ops_of_the_first_generation_are_there(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Variable", "VariableV2", "Assign",   "Switch", "RefSwitch",     "Merge",
        "RefMerge", "Enter",      "RefEnter", "Exit",   "NextIteration", "LoopCond",
        "Const",    "_Arg",       "_Retval",  "Add",    "TopK",          "ControlTrigger"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_non_null(rt_schema_find(names[i]));
    const struct rt_schema *assign = rt_schema_find("Assign");
    assert_true(assign->in[0].is_ref && assign->out[0].is_ref && !assign->in[1].is_ref);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_is_found_by_its_name),
        cmocka_unit_test(a_stranger_is_not_found),
        cmocka_unit_test(the_table_is_sorted_and_points_inside_itself),
        cmocka_unit_test(types_strings_minimums_and_defaults_are_those_of_the_registry),
        cmocka_unit_test(ops_of_the_first_generation_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The Python interface of plain_commit.c. */
#ifndef KAFKA_ZK_PLAIN_COMMIT_MODULE_H
#define KAFKA_ZK_PLAIN_COMMIT_MODULE_H

#include <Python.h>

extern const char plain_commit_doc[];

PyObject *py_plain_commit(PyObject *module, PyObject *const *args, Py_ssize_t arg_count);

/* Number of plain requests since the process started. */
unsigned long long plain_commits_handled(void);

#endif

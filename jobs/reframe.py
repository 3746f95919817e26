"""Loads and runs each container module: written by `sifmod workflows reframe`."""

import shlex

import reframe as rfm
import reframe.utility.sanity as sn

# module: the command that runs in it, and what it prints
MODULES = {}


@rfm.simple_test
class ContainerModule(rfm.RunOnlyRegressionTest):
    """One module."""

    module = parameter(sorted(MODULES))
    valid_systems = ["*"]
    valid_prog_environs = ["*"]

    @run_after("init")
    def load(self):
        command, *options = MODULES[self.module][0]
        self.modules = [self.module]
        self.executable = command
        self.executable_opts = [shlex.quote(option) for option in options]

    @sanity_function
    def runs(self):
        printed = MODULES[self.module][1]
        return sn.all([sn.assert_eq(self.job.exitcode, 0), sn.assert_found(printed, self.stdout)])

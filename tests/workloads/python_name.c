/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Makes a program look like one that embeds Python, to the agent, which stays asleep in all others. */
int Py_IsInitialized(void);
int Py_IsInitialized(void)
{
	return 0;
}

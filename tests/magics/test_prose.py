"""Which first lines are a task in plain words, and which are Python that was typed wrong: one table each."""

from __future__ import annotations

import pytest

from agent_kernel.magics.agent_cell import read

NAMES = ["df", "prices", "sales", "customers", "model", "plots", "total", "In", "Out", "_ih", "get_ipython"]

SLIPS = """
a b = 3
my var = 3
the total += 5
new list = [1, 2]
impot os sys time
form x import y
retrun the value
pritn x now
import os sys time
imprt pandas as pd
improt numpy
import numpy pandas matplotlib
import sqrt from math
imort os path join
form math import sqrt
form collections import Counter as C
form x import a
fron os import path walk
frm os import path
from os improt path
from pandas read csv
retun x y
returm the value
return x y z
rturn value now
prnt x y z
print x y
pint x y z
prin total now then
print x now
print df head
print total sales x
Print x y
fro x in range
fro x in df:
for i in range
for x in sales do
fo x in sales
whlie x is y
while x is not y
wile true do x
if x then y
fi x is y
iff x is y:
elfi x is y
esle x y
else print x
tyr x except y
try x except y
rasie ValueError now
raise ValueError x
wiht open x as f
with open file as f
wth lock as l
clss Foo Bar Baz
class Foo Bar
dfe f x y
def f x
delt x y z
del x y
assrt x equals y
assert x equals y
golbal x y
gloabl counter total
yeild x y
awiat fetch x
lamda x y z
pass x y
breka x y
len df now
ln df now x
sroted sales x y
sorted sales x
rnage x y z
lisst x y z
salse head five
prces mean x
df head now
prices head 5
df.head 5 rows
plt.show now then
x y z
x1 plus y2
import numpy sa np
x is nto None
sum x y
open file x
""".strip().splitlines()

TASKS = """
plot the sales by month
import the csv and clean it
print the five largest customers
delete the rows without a price
for each customer find the mean
fit a model
format the table
raise prices by 5 percent
try another model
Drop the outliers and fit a model of price.
Don't drop anything
Summarise.
Take one of them.
Count up to two.
find the outliers in the prices
sort customers by revenue
list the missing values per column
list customers in Berlin
show me the top ten rows
get the weather of last week
let the model run again
set all missing prices to zero
if a price is missing fill it with the mean
while the loss falls, train on
with the sales table make a bar chart
from the log find the slowest requests
return the largest customer
return outliers by region
pass the result on to the next step
class the customers by size
assert that no price is negative
break the sales down by region
continue with the next three files
try again with a larger tree
raise an alarm where stock is low
global average of all prices please
map regions to countries
filter out rows without a date
sum the revenue per region
round all prices to two digits
max price per region
min and max price by region
open the file and count its lines
help me with the data
input is dirty, clean it
next find the mean of each group
type of each column please
range of the prices by month
zip the two lists together
hash the names of the customers
id column is missing, add one
format prices as euros
wait for the model and then plot it
form groups of similar customers
match customers to their orders
model the price by area
sales by month as a table
prices rise by region, explain why
total revenue by customer
compute mean prices
plot sales monthly
compare both models
visualize revenue over time
explain what df holds
what drives the price?
how many customers bought twice
which region sells best
Print monthly sales totals
Import the sales data
Return only paying customers
Retrun the value of the last row.
retrun the mean of the last three rows
Was läuft hier schief?
bitte die Ausreisser entfernen
trace la courbe des ventes
make it faster
clean the data
remove duplicates and sort by date
build a decision tree
do the same for prices
use df to predict the price
In the sales table find the best month
a chart of prices by year
I want the ten best customers
return rows with missing prices
from sales compute growth
total whether sales differ by region
""".strip().splitlines()


@pytest.mark.parametrize("line", SLIPS)
def test_what_begins_as_code_and_is_no_sentence_is_no_task(line: str) -> None:
    assert read(line, NAMES, str) != "task"


@pytest.mark.parametrize("line", TASKS)
def test_an_everyday_sentence_is_a_task(line: str) -> None:
    assert read(line, NAMES, str) == "task"


def test_there_are_enough_of_both() -> None:
    assert min(len(SLIPS), len(TASKS)) >= 60
    assert len({*SLIPS, *TASKS}) == len(SLIPS) + len(TASKS)


def test_the_name_of_a_variable_makes_a_line_code_that_would_be_a_task_without_it() -> None:
    assert read("orders head twice", ["orders"], str) != "task"
    assert read("orders head twice", (), str) == "task"
    assert read("oders head twice", ["orders"], str) != "task"

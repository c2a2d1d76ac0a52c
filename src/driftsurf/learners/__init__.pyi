# Made by `make generate`: do not edit.
from driftsurf.learners.logistic import LogisticRegression as LogisticRegression
from driftsurf.learners.logistic import paper_learner as paper_learner
from driftsurf.learners.naive_bayes import NaiveBayes as NaiveBayes
from driftsurf.learners.nearest_neighbours import NearestNeighbours as NearestNeighbours
from driftsurf.learners.perceptron import Perceptron as Perceptron
from driftsurf.learners.regression import LinearRegression as LinearRegression
from driftsurf.learners.softmax import SoftmaxRegression as SoftmaxRegression
from driftsurf.learners.svm import LinearSVM as LinearSVM

__all__: list[str]
